"""Loopback servers for tests: one scripted fault server, in its own process, that any test may teach what to answer."""

from tests.servers.client import FaultServer, SeenRequest
from tests.servers.script import Answer, Step, json_answer, redirect, sse_answer

__all__ = ["Answer", "FaultServer", "SeenRequest", "Step", "json_answer", "redirect", "sse_answer"]
