"""Renew foldline's table of prices from the data in litellm's wheel (facts only: names of models and amounts).

The newest release has the models that are sold now; older ones have those that are not sold any more but still stand
in our profiles. Prices there are per token; here they become prices per million tokens.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FILE = ROOT / "src" / "foldline" / "prices" / "prices.json"
PAGE = ROOT / "docs" / "costs-and-limits.md"
PACKAGE = "litellm"
OLDER = ("1.83.0", "1.80.0")
MEMBER = "litellm/model_prices_and_context_window_backup.json"
BEGIN, END = "<!-- prices: begin -->", "<!-- prices: end -->"

PROVIDERS = {
    "openai": "openai",
    "text-completion-openai": "openai",
    "azure": "azure_openai",
    "anthropic": "anthropic",
    "gemini": "google_genai",
    "vertex_ai-anthropic_models": "google_anthropic_vertex",
    "bedrock": "bedrock_converse",
    "bedrock_converse": "bedrock_converse",
    "deepseek": "deepseek",
    "groq": "groq",
    "mistral": "mistral",
    "xai": "xai",
    "openrouter": "openrouter",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "perplexity": "perplexity",
    "cerebras": "cerebras",
    "moonshot": "moonshot",
    "dashscope": "qwen",
    "azure_ai": "azure_ai",
    "baseten": "baseten",
    "cohere": "cohere",
    "cohere_chat": "cohere",
    "meta": "meta",
    "meta_llama": "meta",
    "nvidia_nim": "nvidia",
    "sambanova": "sambanova",
    "volcengine": "doubao",
    "watsonx": "ibm",
}
"""The package's name of a provider -> ours."""
FOLDERS = {"vertex_ai-anthropic_models": "vertex_ai"}
"""The package's name of a provider -> what the names of its models begin with, where that is another word."""
WITHOUT_WRITE_PRICE = {"gemini"}
"""Who keeps a cache for money by the hour: what the package has there is no price of a token."""
MODES = {"chat", "responses", "completion"}
FIELDS = {
    "input_cost_per_token": "input",
    "output_cost_per_token": "output",
    "cache_read_input_token_cost": "cache_read",
    "cache_creation_input_token_cost": "cache_creation",
    "cache_creation_input_token_cost_above_1hr": "cache_creation_1h",
    "output_cost_per_reasoning_token": "reasoning",
    "input_cost_per_audio_token": "input_audio",
    "output_cost_per_audio_token": "output_audio",
    "input_cost_per_image_token": "input_image",
    "output_cost_per_image_token": "output_image",
}
MOST = 1000.0
"""Dollars for a million tokens that no model costs."""
VARIANTS = {"batches": "batch", "flex": "flex", "priority": "priority"}
ABOVE = re.compile(r"^(?P<field>.+)_above_(?P<thousands>\d+)k_tokens$")

Row = dict[str, Any]
Models = dict[str, dict[str, Row]]


def per_million(amount: float) -> float:
    """Return a price per token as a price per million, as the decimal number that was meant."""
    value = Decimal(str(amount)) * 1_000_000
    return float(round(value, 9))


def read_row(entry: Mapping[str, Any]) -> Row | None:
    """Return a model's prices in our form; None where the package knows none, or says they are 0."""
    entry = {**_lowest_tier(entry), **entry}
    row: Row = {}
    for name, amount in entry.items():
        place = _place(name)
        if place is None or isinstance(amount, bool) or not isinstance(amount, int | float):
            continue
        if not amount:  # not known, or part of another price
            continue
        field, variant, start = place
        home = row.setdefault(variant, {}) if variant else row
        if start:
            home = home.setdefault("above", {}).setdefault(start, {})
        home[field] = per_million(amount)
    for start, tier in _tiers(entry):
        row.setdefault("above", {})[start] = tier
    if not row.get("input") or not row.get("output"):
        return None
    if max(row["input"], row["output"]) > MOST:  # a slip of the source: per thousand, not per token
        return None
    for variant in VARIANTS.values():  # a variant without both has no price of its own
        if variant in row and not (row[variant].get("input") and row[variant].get("output")):
            del row[variant]
    return _sorted(row)


def _place(name: str) -> tuple[str, str, str] | None:
    variant = ""
    for ending, ours in VARIANTS.items():
        if name.endswith(f"_{ending}"):
            name, variant = name.removesuffix(f"_{ending}"), ours
    start = ""
    if found := ABOVE.match(name):
        name, start = found["field"], found["thousands"] + "000"
    return (FIELDS[name], variant, start) if name in FIELDS else None


def _lowest_tier(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    tiers = entry.get("tiered_pricing") or []
    return tiers[0] if tiers and isinstance(tiers[0].get("range"), list) else {}


def _tiers(entry: Mapping[str, Any]) -> Iterator[tuple[str, Row]]:
    for tier in (entry.get("tiered_pricing") or [])[1:]:
        if isinstance(tier.get("range"), list):
            rates = {FIELDS[name]: per_million(tier[name]) for name in tier if name in FIELDS}
            yield str(int(tier["range"][0])), rates


def _sorted(row: Row) -> Row:
    order = [*FIELDS.values(), "above", *VARIANTS.values()]
    return {
        name: {key: _sorted(tier) for key, tier in row[name].items()}
        if name == "above"
        else _sorted(row[name])
        if isinstance(row[name], dict)
        else row[name]
        for name in order
        if name in row
    }


def read_models(data: Mapping[str, Mapping[str, Any]]) -> Models:
    """Return what the package knows of the models of our providers."""
    models: Models = {}
    for key, entry in data.items():
        theirs = str(entry.get("litellm_provider"))
        name = key.removeprefix(f"{FOLDERS.get(theirs, theirs)}/")
        if theirs not in PROVIDERS or not _is_chat(entry) or _is_other(theirs, name):
            continue
        if (row := read_row(entry)) is not None:
            if theirs in WITHOUT_WRITE_PRICE:
                row.pop("cache_creation", None)
            home = models.setdefault(PROVIDERS[theirs], {})
            if key == name or name not in home:  # a name without prefix is the provider's own
                home[name] = row
    return models


def _is_chat(entry: Mapping[str, Any]) -> bool:
    mode = entry.get("mode")
    # Gemini's pictures are answers of a chat, paid by the token; others sell them by the step.
    return mode in MODES or (mode == "image_generation" and entry["litellm_provider"] == "gemini")


def _is_other(provider: str, name: str) -> bool:
    """Whether a name is no model's: of a region by its folder, of a size."""
    if provider in ("bedrock", "bedrock_converse", "azure", "openai"):
        return "/" in name
    return name.startswith("together-ai-")


def merge(newer: Models, older: Models) -> Models:
    """Return both; where both know a model, the newer."""
    merged = {
        provider: {**older.get(provider, {}), **newer.get(provider, {})}
        for provider in {*newer, *older}
    }
    return {name: dict(sorted(rows.items())) for name, rows in sorted(merged.items())}


def differences(before: Models, after: Models) -> list[str]:
    """Return the lines that say what changed, model by model."""
    lines = []
    for provider in sorted({*before, *after}):
        old, new = before.get(provider, {}), after.get(provider, {})
        for model in sorted({*old, *new}):
            if model not in old:
                lines.append(f"+ {provider}:{model} {json.dumps(new[model])}")
            elif model not in new:
                lines.append(f"- {provider}:{model}")
            elif old[model] != new[model]:
                lines.append(f"~ {provider}:{model} {_changes(old[model], new[model])}")
    return lines


def _changes(old: Row, new: Row) -> str:
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(f"{name}: {old.get(name)} -> {new.get(name)}" for name in names)


def write_file(models: Models, source: str, date: str, path: Path = FILE) -> None:
    """Write the table, a model to a line."""
    head = {"date": date, "source": source, "currency": "USD", "unit": "per million tokens"}
    lines = [f"  {json.dumps(name)}: {json.dumps(text)}," for name, text in head.items()]
    blocks = []
    for provider, rows in models.items():
        inner = ",\n".join(
            f"      {json.dumps(model)}: {json.dumps(row)}" for model, row in rows.items()
        )
        blocks.append(f"    {json.dumps(provider)}: {{\n{inner}\n    }}")
    text = "{\n" + "\n".join(lines) + '\n  "models": {\n' + ",\n".join(blocks) + "\n  }\n}\n"
    path.write_text(text, encoding="utf-8")


def table_of(data: Mapping[str, Any]) -> str:
    """Return the table of the page: the models that are sold under their own name, newest price first."""
    lines = [
        f"As of {data['date']}, in US dollars per million tokens; source: {data['source']}.",
        "",
        "| provider | model | input | cached | cache write | output | batch (in / out) | long prompts (in / out) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for provider, rows in data["models"].items():
        for model, row in rows.items():
            if _is_shown(provider, model, rows):
                lines.append(_line(provider, model, row))
    return "\n".join(lines)


DATED = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2}|\d{4})(?!\d)")
SHOWN = {
    "anthropic",
    "openai",
    "google_genai",
    "deepseek",
    "groq",
    "mistral",
    "xai",
    "cerebras",
    "moonshot",
}


def _is_shown(provider: str, model: str, rows: Mapping[str, Row]) -> bool:
    undated = DATED.sub("", model)
    return (
        provider in SHOWN
        and not model.startswith("ft:")
        and (undated == model or undated not in rows)
    )


def _line(provider: str, model: str, row: Row) -> str:
    batch = row.get("batch", {})
    tiers = row.get("above") or {}
    longest = [f"over {int(start):,}: {_pair(tier)}" for start, tier in tiers.items()]
    cells = [
        provider, f"`{model}`", _amount(row["input"]), _amount(row.get("cache_read")),
        _amount(row.get("cache_creation")), _amount(row["output"]), _pair(batch) if batch else "", "; ".join(longest),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _pair(rates: Row) -> str:
    return f"{_amount(rates.get('input'))} / {_amount(rates.get('output'))}"


def _amount(price: float | None) -> str:
    return "" if price is None else f"{price:.6f}".rstrip("0").rstrip(".")


def page_with(table: str, page: str) -> str:
    """Return the page with another table."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def fetch(requirement: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """Download a release of the package; return its version and its data. Nothing of it is run."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*pip, requirement], check=True)
    wheel = next(folder.glob(f"{PACKAGE}-*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        data = json.loads(archive.read(MEMBER))
    return wheel.name.split("-")[1], data


def fetch_all() -> tuple[Models, str]:
    """Return the models of the newest release over those of the older one, and the name of the source."""
    found = []
    for requirement in (PACKAGE, *(f"{PACKAGE}=={version}" for version in OLDER)):
        with tempfile.TemporaryDirectory() as folder:
            found.append(fetch(requirement, Path(folder)))
    newest = found[0][0]
    models: Models = {}
    for _, data in found:
        models = merge(models, read_models(data))
    source = f"{PACKAGE} {newest}; {' and '.join(OLDER)} for models no longer sold"
    return models, source


def main(arguments: list[str]) -> int:
    """Fetch, show the difference, write what is asked for."""
    parser = argparse.ArgumentParser(prog="scripts/prices", description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="write the file and the table of the page"
    )
    parser.add_argument("--docs", action="store_true", help="write only the table of the page")
    chosen = parser.parse_args(arguments)
    before = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {"models": {}}
    if not chosen.docs:
        models, source = fetch_all()
        lines = differences(before["models"], models)
        print("\n".join(lines) or "no price has changed")  # noqa: T201
        print(f"{len(lines)} changes; source: {source}")  # noqa: T201
        if chosen.write:
            write_file(models, source, datetime.now(tz=UTC).date().isoformat())
    if (chosen.write or chosen.docs) and PAGE.exists():
        table = table_of(json.loads(FILE.read_text(encoding="utf-8")))
        PAGE.write_text(page_with(table, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
