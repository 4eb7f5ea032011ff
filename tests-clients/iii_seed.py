"""The worker from the iii registry's guide for Python, in the form that the published SDKs accept."""

import json
import os
import threading

from iii import register_worker

iii = register_worker(os.environ.get("HUB_URL", "ws://localhost:49134"))


async def guide(_input):
    return {"content": "# Demo guide\n\nThe long-form docs for the demo worker."}


async def greet_prompt(input):
    name = input.get("name", "world")
    return {"content": f"Greet {name} warmly."}


async def on_change(input):
    print("changed", json.dumps(input.get("id")), flush=True)


iii.register_function("demo::guide", guide)
iii.register_function("demo::greet_prompt", greet_prompt)
iii.register_function("demo::on_change", on_change)
iii.register_trigger({"type": "skills::on-change", "function_id": "demo::on_change", "config": {}})

iii.trigger(
    {
        "function_id": "skills::register",
        "payload": {
            "id": "demo",
            "skill": "# demo\n\nA demo worker.\n\nSee [`guide`](iii://demo/demo::guide) for the long version.\n",
        },
    }
)
iii.trigger(
    {
        "function_id": "prompts::register",
        "payload": {
            "name": "greet",
            "description": "Compose a greeting.",
            "arguments": [{"name": "name", "description": "Who to greet", "required": True}],
            "function_id": "demo::greet_prompt",
        },
    }
)
print("ready", flush=True)
threading.Event().wait()
