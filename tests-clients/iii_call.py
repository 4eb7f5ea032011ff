"""Calls one function through a hub with the published SDK for Python, and prints its result as JSON.

`iii_call.py URL FUNCTION JSON`; a call that fails exits with 1 and says why.
"""

import json
import sys

from iii import register_worker

url, function, data = sys.argv[1:]
iii = register_worker(url)
try:
    result = iii.trigger({"function_id": function, "payload": json.loads(data)})
except Exception as problem:  # Whatever the SDK raises is the answer.
    print(problem, file=sys.stderr)
    sys.exit(1)
print(json.dumps(result), flush=True)
# The SDK keeps threads that do not end by themselves.
sys.stdout.flush()
sys.exit(0)
