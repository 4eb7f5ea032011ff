"""Calls one function through a hub with the published SDK for Python, and prints its result as JSON.

`iii_call.py URL FUNCTION JSON`; a call that fails exits with 1 and says why.
"""

import json
import os
import sys

from iii import register_worker

url, function, data = sys.argv[1:]
iii = register_worker(url)
try:
    result = iii.trigger({"function_id": function, "payload": json.loads(data)})
    print(json.dumps(result), flush=True)
    code = 0
except Exception as problem:  # Whatever the SDK raises is the answer.
    print(problem, file=sys.stderr, flush=True)
    code = 1
# The SDK has threads that would keep the process.
os._exit(code)
