<?php
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A client of MariaDB at HOST PORT: rows of 1 to 2,000,000 bytes there and back.

[, $host, $port] = $argv;
mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
$db = new mysqli($host, 'root', '', '', (int)$port);
$db->query('create database a');
$db->select_db('a');
$db->query('create table t (i int primary key, b longblob)');
$insert = $db->prepare('insert into t values (?, ?)');
for ($i = 0; $i < 200; $i++) {
	$bytes = str_repeat(chr(32 + $i % 90), $i == 100 ? 2000000 : 1 + $i * $i);
	$insert->bind_param('is', $i, $bytes);
	$insert->execute();
}
foreach ($db->query('select i, b from t order by i') as $row)
	echo $row['i'], ' ', strlen($row['b']), ' ', md5($row['b']), "\n";
