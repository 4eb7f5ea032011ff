"""Calls one function through a hub with the published SDK for Python, and prints its result as JSON.

`iii_call.py URL FUNCTION JSON`; exits with 1 and prints the error if the call fails.
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
except Exception as problem:  # Any exception of the SDK is the result.
    print(problem, file=sys.stderr, flush=True)
    code = 1
# The SDK has threads that would keep the process alive.
os._exit(code)
