# Functions of the other scripts, which source this file from the root of the repository.

say() { echo "==> $*" >&2; }
fail() {
    echo "error: $*" >&2
    exit 1
}

# Print the path of the first Python that is recent enough.
find_python() {
    for python in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11 python; do
        [ -n "$python" ] || continue
        if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$python"
            return
        fi
    done
    fail "Python 3.11 or later was not found. Install it, or set PYTHON to its path."
}

# Print the path of uv: from PATH, else from .tools, into which pip installs the locked version.
find_uv() {
    if command -v uv; then
        return
    fi
    if [ ! -x .tools/bin/uv ]; then
        python=$(find_python)
        say "installing uv into .tools"
        "$python" -m venv .tools || fail "$python cannot create virtual environments. On Debian: apt-get install python3-venv."
        .tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
            -r requirements/tools.lock >&2
    fi
    echo "$PWD/.tools/bin/uv"
}
