"""Build the site into build/site: `python -m scripts.website`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

from scripts.website.links import broken_links
from scripts.website.llms import write_llms
from scripts.website.pages import ROOT, copy_pages
from scripts.website.reference import ApiPage, find_pages, write_pages

API_ENTRY = '{ "API reference" = "api/index.md" },'


def main(build: Path) -> int:
    """Build, check, and return an exit code."""
    pages, site = build / "pages", build / "site"
    for folder in (pages, site):
        shutil.rmtree(folder, ignore_errors=True)
    copy_pages(pages)
    reference = find_pages(ROOT / "src")
    write_pages(reference, pages / "api")
    config = build / "zensical.toml"
    config.write_text(_config(reference, build), encoding="utf-8")
    program = Path(sysconfig.get_path("scripts")) / "zensical"
    command = [str(program), "build", "--clean", "--strict", "--config-file", str(config)]
    built = subprocess.run(command, cwd=build, check=False)
    if built.returncode:
        return built.returncode
    project = tomllib.loads(config.read_text(encoding="utf-8"))["project"]
    write_llms(project["nav"], pages, site, project["site_description"])
    complaints = broken_links(site)
    for complaint in complaints:
        sys.stderr.write(f"{complaint}\n")
    names = sum(len(paths) for page in reference for paths in page.names.values())
    sys.stdout.write(
        f"{len(list(site.rglob('*.html')))} pages, {names} public names, {len(complaints)} broken links: "
        f"{site / 'index.html'}\n"
    )
    return 1 if complaints else 0


def _config(reference: list[ApiPage], build: Path) -> str:
    """Return the configuration with an entry for each page of the reference."""
    text = (ROOT / "docs" / "zensical.toml").read_text(encoding="utf-8")
    entries = [f'{{ "{page.package}" = "api/{page.file}" }}' for page in reference]
    whole = f'{{ "API reference" = [{{ "Overview" = "api/index.md" }}, {", ".join(entries)}] }},'
    if API_ENTRY not in text:
        raise SystemExit(f"docs/zensical.toml has no line {API_ENTRY}")
    return text.replace(API_ENTRY, whole).replace('"../src"', f'"{(ROOT / "src").as_posix()}"')


if __name__ == "__main__":
    chosen = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT / "build" / "website"
    chosen.mkdir(parents=True, exist_ok=True)
    sys.exit(main(chosen))
