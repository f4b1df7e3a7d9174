# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# table.awk - for run: counts verdicts by kind of fault.

{
	sub(/:$/, "", $8)
	n = $2 == "round" ? 1 : 5
	for (i = 2; i < 2 + n; i++) {
		kind = (i == 3 ? "moment: " : i == 4 ? "used by: " : "") $i
		if (!(kind in injected)) order[i, ++kinds[i]] = kind
		injected[kind]++
		survived[kind] += $1 != "failed"
		lost[kind] += $7
		hangs[kind] += $8
		excused[kind] += $1 == "excused"
	}
	total++
	good += $1 != "failed"
	all_lost += $7
	all_hangs += $8
	all_excused += $1 == "excused"
}

function row(name, a, b, c, d, e) {
	if (json)
		printf "%s{\"fault\":\"%s\",\"injected\":%d,\"survived\":%d,\"bytes_lost\":%d,\"hangs\":%d,\"resets_by_killed_parent\":%d}", \
			comma, name, a, b, c, d, e
	else
		printf "%-24s%10d%10d%12d%8d%10d\n", name, a, b, c, d, e
	comma = ","
}

END {
	if (json) printf "{\"seed\":%s,\"link\":\"%s\",\"faults\":[", seed, link
	else printf "%-24s%10s%10s%12s%8s%10s\n", "fault (" link ", seed " seed ")", \
		"injected", "survived", "bytes lost", "hangs", "excused"
	for (i = 2; i < 7; i++)
		for (k = 1; k <= kinds[i]; k++)
			row(order[i, k], injected[order[i, k]], survived[order[i, k]], \
				lost[order[i, k]], hangs[order[i, k]], excused[order[i, k]])
	row("all", total, good, all_lost, all_hangs, all_excused)
	if (json) print "]}"
	exit total == 0 || good < total
}
