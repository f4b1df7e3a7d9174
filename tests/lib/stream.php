<?php
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# stream.php PORT [LOG]: a client of lib/echo.py.  PHP itself makes the stream; then, when the
# log says that it is on a link, an extension is loaded, which uses it by calls of its own.

function same(string $sent, callable $receive): string
{
	$got = '';
	while (strlen($got) < strlen($sent)) {
		$piece = $receive(strlen($sent) - strlen($got));
		if ($piece === false || $piece === '')
			return 'ended';
		$got .= $piece;
	}
	return $got === $sent ? 'equal' : 'DIFFERS';
}

$stream = stream_socket_client("tcp://127.0.0.1:$argv[1]");
stream_set_timeout($stream, 30);
function exchange(): void
{
	global $stream;
	$data = str_repeat(chr(rand(65, 90)), 3000);
	fwrite($stream, $data);
	if (same($data, fn($n) => fread($stream, $n)) !== 'equal')
		die("by PHP itself: not equal\n");
}

$end = time() + 60;
do
	exchange();
while (isset($argv[2]) && time() < $end &&
	!str_contains((string)@file_get_contents($argv[2]), 'tx on the link'));
exchange();

dl('sockets.so');
$socket = socket_import_stream($stream);
socket_set_option($socket, SOL_SOCKET, SO_RCVTIMEO, ['sec' => 30, 'usec' => 0]);
for ($i = 1; $i <= 40; $i++) {
	$data = str_repeat(chr(64 + $i), 1000 * $i);
	for ($done = 0; $done < strlen($data); $done += $n) {
		$n = socket_write($socket, substr($data, $done));
		if ($n === false)
			die("socket_write\n");
	}
	echo same($data, fn($n) => socket_read($socket, $n)), "\n";
}
socket_shutdown($socket, 1);
var_dump(socket_read($socket, 1));
