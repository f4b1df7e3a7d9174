#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The figures of tests/bench: from numbers that are given, not measured.

load ../../lib/common

setup() {
	need gnuplot
	cd "$BATS_TEST_TMPDIR" || return
	plot=$SR_TOP/tests/bench/plot
	cat >curves.json <<-'END'
	{"machine":"A_machine","cpus":2,"kernel":"6.1","link":"shm","device":"","date":"2026-11-25","load":0.10,"turns":1,"version":"sockrail 0.2.0"}
	{"curve":"latency","row":"tcp","x":0,"y":8.1}
	{"curve":"latency","row":"tcp","x":99.99,"y":81}
	{"curve":"latency","row":"sockrail","x":0,"y":0.5}
	{"curve":"latency","row":"sockrail","x":99.99,"y":9}
	{"curve":"bandwidth","row":"raw","x":64,"y":50}
	{"curve":"bandwidth","row":"raw","x":4194304,"y":5000}
	END
}

@test "a figure for each curve that there is, and one of all, as SVG and PNG" {
	run -0 "$plot" curves.json out
	[ "$output" = "" ]
	[ "$(cd out && echo *)" = \
		"bandwidth.png bandwidth.svg figure.png figure.svg latency.png latency.svg" ]
	for f in out/*.png; do [[ $(file -b "$f") = PNG* ]]; done
	python3 -c 'import sys, xml.dom.minidom as m; [m.parse(f) for f in sys.argv[1:]]' out/*.svg
	grep -q '>librspreload<' out/*.svg && false
	grep -q '>Sockrail<' out/latency.svg
	grep -q '>raw verbs<' out/bandwidth.svg
	grep -q 'A_machine, 2 CPUs, Linux 6.1, 2026-11-25' out/figure.svg
}

@test "what is no such file is refused in a line" {
	run -1 "$plot" nothing.json
	[ "$output" = "plot: nothing.json: cannot be read" ]
	echo '{"row":"tcp"}' >table.json
	run -1 "$plot" table.json
	[ "$output" = "plot: table.json: has no curves; see tests/bench/run --curves" ]
	run -2 "$plot"
}
