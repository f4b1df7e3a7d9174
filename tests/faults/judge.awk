# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# judge.awk - for run: reads rounds over TCP, a report and the same round over the link.

# split_way(TEXT): got, sent, tried, last.  Once a sender has been told of a reset, a
# reader of the same end sees an end of file.
function split_way(text,    part) {
	sub(/^[a-z]*=/, "", text)
	split(text, part, /[\/:,]/)
	got = part[1] + 0; sent = part[2] + 0; tried = part[3] + 0
	last = part[5] == "sent" && part[4] == "eof" ? "reset" : part[4]
}

# What has become of a direction
function class_of(text) {
	split_way(text)
	return last (last == "reset" ? "" : got >= sent ? "-all" : "-part")
}

# value(FIELD): behind the =
function value(field) {
	sub(/^[a-z]*=/, "", field)
	return field
}

function bad(why) { wrong = wrong " " why }

FILENAME ~ /\.report$/ {
	if (match($0, /"pid": *[0-9]+/)) {
		pid = substr($0, RSTART, RLENGTH)
		sub(/.*[: ]/, "", pid)
		if ($0 ~ "\"link\": *\"" link) reported[pid]++
	}
	if ($0 ~ /"switches": *[1-9]/)
		for (rest = $0; match(rest, /:[0-9]+"/); rest = substr(rest, RSTART + RLENGTH))
			switched[substr(rest, RSTART + 1, RLENGTH - 2)] = 1
	next
}

FILENAME ~ /\.tcp[0-9]?$/ {
	if ($1 != "peer") seen[$1, class_of($13) " " class_of($14)] = 1
	next
}

$1 == "peer" {
	if (linked > reported[$2] + 0)
		print "failed round - - - - 0 0: of " linked " streams on a link " \
			reported[$2] + 0 " are in the report"
	if ($4 > 0) print "failed round - - - - 0 0: " $4 " processes crashed"
	ended = 1
	next
}

{
	wrong = ""; lost = 0; excused = ""
	early = value($9) != "-1,-1"
	ring = value($10) == 1
	linked += ring
	class_now = class_of($13) " " class_of($14)
	split_way($13)
	if (last == "eof" && got < sent) { lost = sent - got; bad("lost") }
	if (got > tried) bad("more")
	all = got == sent
	split_way($14)
	all = all && got == sent
	if (last == "eof" && got < sent) { lost += sent - got; bad("lost") }
	if (value($15) > 0) bad("wrong-bytes")
	if (value($16) > 0) bad("hang")
	if (value($12) > 1) bad("ring-in-child") # one may be mapped just now
	split(value($17), left, ",")
	if (left[1] > 5) bad("descriptors")
	if (left[2] > 0) bad("rings")
	if (!early && value($10) == 0) bad("no-link")
	if (value($11) == 0) bad("left-link")
	if (!early && !seen[$1, class_now]) {
		if ($6 == "kill" && $7 == "parent-first" && class_now ~ /reset/)
			excused = " (killed parent's link)"
		# What a killed process had not read is in no queue of the kernel's.
		else if ($6 == "kill" && class_now ~ /^(eof|none)-all (eof|none)-all$/)
			excused = " (all has arrived, and no reset)"
		# Nor had it read the record of a switch, which the kernel takes for data.
		else if (($6 == "kill" || ($7 == "parent-first" && $5 == "kill")) && all && \
			 class_now ~ /^reset (eof|none)/ && (value($18) in switched))
			excused = " (all has arrived, and a switch)"
		# It ended while what it had not read was on its way back to TCP.
		else if (class_now ~ /^eof-all (eof|none)-part$/ && $3 == "unread" && \
			 seen[$1, "reset" substr(class_now, 8)] && (value($18) in switched))
			excused = " (all has arrived, and unread bytes were under way)"
		else bad("class:" class_now)
	}
	print (wrong ? "failed" : excused ? "excused" : "ok"), $2, $3, $4, \
		"child-" (early ? "killed-early" : $5), "parent-" $6, lost, value($16) ":", \
		$0 wrong excused
}

END { if (!ended) print "failed round - - - - 0 0: it has not ended" }
