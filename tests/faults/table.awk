# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# table.awk - for run: counts verdicts by kind of fault.

{
	sub(/:$/, "", $8)
	n = $3 == "-" ? 1 : 5
	for (i = 2; i < 2 + n; i++) {
		kind = (i == 3 ? "moment: " : i == 4 ? "used by: " : "") $i
		if (!(kind in injected)) order[i, ++kinds[i]] = kind
		injected[kind]++
		alone[kind] = n == 1 && kind != "round"
		survived[kind] += $1 != "failed"
		lost[kind] += $7
		hangs[kind] += $8
		excused[kind] += $1 == "excused"
		linked[kind] += / linked=[1-9]/
	}
	total++
	good += $1 != "failed"
	all_lost += $7
	all_hangs += $8
	all_excused += $1 == "excused"
	all_linked += / linked=[1-9]/
}

function row(name, a, b, c, d, e, f) {
	if (json)
		printf "%s{\"fault\":\"%s\",\"injected\":%d,\"survived\":%d,\"bytes_lost\":%d,\"hangs\":%d,\"resets_by_killed_parent\":%d,\"linked\":%d}", \
			comma, name, a, b, c, d, e, f
	else
		printf "%-28s%10d%10d%12d%8d%9d%8d\n", name, a, b, c, d, e, f
	comma = ","
}

END {
	if (json) printf "{\"seed\":%s,\"link\":\"%s\",\"faults\":[", seed, link
	else printf "%-28s%10s%10s%12s%8s%9s%8s\n", "fault (" link ", seed " seed ")", \
		"injected", "survived", "bytes lost", "hangs", "excused", "linked"
	for (i = 2; i < 7; i++)
		for (k = 1; k <= kinds[i]; k++) {
			kind = order[i, k]
			row(kind, injected[kind], survived[kind], lost[kind], hangs[kind], \
				excused[kind], linked[kind])
			if (alone[kind] && injected[kind] >= 20 && !linked[kind])
				unlinked = unlinked " " kind
		}
	row("all", total, good, all_lost, all_hangs, all_excused, all_linked)
	if (json) print "]}"
	if (unlinked) print "faults: never on a link:" unlinked >"/dev/stderr"
	exit total == 0 || good < total || unlinked != ""
}
