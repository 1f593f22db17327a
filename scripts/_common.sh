# Shared by the scripts: stand in the repository's root, say what happens, find a Python, make an environment.
# Sourced, never run.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '\n==> %s\n' "$*"; }
note() { printf '    %s\n' "$*"; }
fail() { printf '\nerror: %s\n' "$*" >&2; exit 1; }

# runs COMMAND VERSION: the command starts, and is that Python (3.12) or, without VERSION, any we support.
runs() {
  "$1" - "${2:-}" >/dev/null 2>&1 <<'PYTHON'
import sys

wanted = sys.argv[1]
mine = "%d.%d" % sys.version_info[:2]
sys.exit(0 if (mine == wanted if wanted else sys.version_info >= (3, 11)) else 1)
PYTHON
}

# find_python [VERSION]: print a Python that runs. A pyenv shim may exist and still not run, so each is tried.
find_python() {
  local wanted="${1:-}" candidate
  local -a candidates=(${FOLDLINE_PYTHON:-} python3 python3.13 python3.12 python3.11 python)
  [[ -n "$wanted" ]] && candidates=("python$wanted")
  for candidate in "${candidates[@]}" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3."${wanted#3.}"*/bin/python3; do
    if command -v "$candidate" >/dev/null 2>&1 && runs "$candidate" "$wanted"; then
      command -v "$candidate"
      return 0
    fi
  done
  return 1
}

# as_root COMMAND...: run it as root if that needs no password; otherwise fail.
as_root() {
  if [[ "$(id -u)" == 0 ]]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1 && sudo -n true >/dev/null 2>&1; then
    sudo -n "$@"
  else
    return 1
  fi
}

# apt_install PACKAGE...: on Debian and its children, and only with the right to.
apt_install() {
  command -v apt-get >/dev/null 2>&1 || return 1
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >/dev/null || return 1
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# make_venv DIRECTORY PYTHON: a fresh environment with pip in it.
make_venv() {
  local directory="$1" python="$2" version
  rm -rf "$directory"
  if "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    "$python" -m venv "$directory"
  elif command -v uv >/dev/null 2>&1; then
    uv venv -q --seed --python "$python" "$directory"
  else
    version="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    note "$python has no ensurepip: installing python$version-venv"
    apt_install "python$version-venv" ||
      fail "$python cannot make environments: install its venv package (Debian: apt-get install python$version-venv)"
    "$python" -m venv "$directory"
  fi
}

# fingerprint: changes when an installation must be renewed.
fingerprint() { { pwd; cat pyproject.toml constraints.txt; } | cksum; }

# is_installed DIRECTORY WHAT: the environment works and was filled from these very files.
is_installed() {
  [[ -x "$1/bin/python" && -f "$1/.foldline-$2" ]] && "$1/bin/python" -c '' 2>/dev/null &&
    [[ "$(cat "$1/.foldline-$2")" == "$(fingerprint)" ]]
}

# install_peers DIRECTORY ARGUMENTS...: an environment of other people's packages, renewed when the arguments change.
install_peers() {
  local directory="$1" wanted
  shift
  wanted="$(if [[ "$1" == -r ]]; then cksum <"$2"; else printf '%s\n' "$@" | cksum; fi)"
  [[ -x "$directory/bin/python" && "$(cat "$directory/.installed" 2>/dev/null)" == "$wanted" ]] && return 0
  say "Installing the peers into $directory"
  make_venv "$directory" .venv/bin/python
  "$directory/bin/python" -m pip --disable-pip-version-check install --quiet "$@"
  printf '%s\n' "$wanted" >"$directory/.installed"
}
