"""Converts the log probabilities of providers to the form of Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foldline.serve._json_object import JsonObject

__all__ = ["completion_logprobs"]


def completion_logprobs(metadata: Mapping[str, Any]) -> JsonObject | None:
    """Return a choice's `logprobs` from a message's metadata; None where there are none."""
    form = metadata.get("logprobs")
    if not isinstance(form, Mapping):
        return None
    if isinstance(form.get("content"), list):
        return {"content": form["content"], "refusal": form.get("refusal")}
    if isinstance(form.get("chosenCandidates"), list):
        return {"content": _from_candidates(form), "refusal": None}
    return None


def _from_candidates(form: Mapping[str, Any]) -> list[JsonObject]:
    """Convert Google's form: the chosen tokens, and a list of likely tokens for each position."""
    alternatives = form.get("topCandidates") or []
    content = []
    for place, candidate in enumerate(form["chosenCandidates"]):
        likely = alternatives[place] if place < len(alternatives) else {}
        top = [_token(item) for item in likely.get("candidates") or ()]
        content.append({**_token(candidate), "top_logprobs": top})
    return content


def _token(candidate: Mapping[str, Any]) -> JsonObject:
    token = str(candidate.get("token") or "")
    return {
        "token": token,
        "logprob": candidate.get("logProbability") or 0.0,
        "bytes": list(token.encode("utf-8", "replace")),
    }
