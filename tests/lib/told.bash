# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash disable=SC2154 # output is bats'
# What sockrail check --json has said, in $output.

# told RESULT WHAT TEXT [REASON]: has a line said so?
told() {
	printf '%s\n' "$output" | python3 -c '
import json, sys
result, what, text, reason = (sys.argv[1:] + [None])[:4]
lines = [json.loads(l) for l in sys.stdin]
if not any(l["result"] == result and l["what"] == what and
           text in l["found"] + "|" + l.get("remedy", "") and
           reason in (None, l.get("reason")) for l in lines):
    print(f"not told: {sys.argv[1:]}", *lines, sep="\n")
    sys.exit(1)' "$@"
}

# untold RESULT WHAT TEXT: no line has
untold() {
	if told "$@" >/dev/null; then
		echo "told: $*"
		return 1
	fi
}
