"""Serves a model file on the loopback interface, as an OpenAI-compatible server: `serve_model.py FILE PORT`."""

from __future__ import annotations

import signal
import sys

import xllamacpp

THREADS = 2
CONTEXT = 2048


def serve(path: str, port: int) -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = CONTEXT
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = THREADS
    parameters.warmup = False
    # The model's own chat template is a Jinja template.
    parameters.use_jinja = True
    server = xllamacpp.Server(parameters)
    print(f"listening on {server.listening_address}", flush=True)
    signal.sigwait([signal.SIGINT, signal.SIGTERM])


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
    serve(sys.argv[1], int(sys.argv[2]))
