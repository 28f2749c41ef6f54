#!/bin/sh
# Makes the virtual environment of the SDK: venv.sh DIR [EXTRA]. It does nothing
# when the environment is newer than pyproject.toml.
set -eu
dir=$1
extra=${2:-dev}
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
stamp=$dir/.rtj-$extra
[ -f "$stamp" ] && [ ! "$here/pyproject.toml" -nt "$stamp" ] && exit 0

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
	{ echo "error: Python 3.10 or newer is needed; set PYTHON to one" >&2; exit 1; }

# pip_wheel prints a wheel of pip, which runs without being installed.
pip_wheel() {
	for wheel in /usr/share/python-wheels/pip-*.whl; do
		[ -f "$wheel" ] && { echo "$wheel"; return; }
	done
	"$python" -m pip download --quiet --no-deps --dest "$dir/wheels" pip >&2 &&
		ls "$dir"/wheels/pip-*.whl
}

echo "making the Python environment $dir" >&2
if [ ! -x "$dir/bin/python" ]; then
	if "$python" -c 'import ensurepip' 2>/dev/null; then
		"$python" -m venv "$dir"
	else
		"$python" -m venv --without-pip "$dir"
	fi
fi
if ! "$dir/bin/python" -m pip --version >/dev/null 2>&1; then
	wheel=$(pip_wheel) ||
		{ echo "error: Python has neither ensurepip nor pip; install one of them (Debian: python3-venv or python3-pip-whl)" >&2; exit 1; }
	"$dir/bin/python" "$wheel/pip" install --quiet --no-index "$wheel"
fi
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$here[$extra]"
touch "$stamp"
