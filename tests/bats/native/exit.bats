#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Destructors of a library of the program's run behind the library's own, and use streams.

# shellcheck disable=SC2154 # set by what is loaded
load ../../lib/common

teardown() { stop_all; }

setup() {
	need "${CC:-gcc}" python3
	[ -z "${SR_TEST_SANITIZER:-}" ] || skip "it builds with no sanitizer"
	d=$BATS_TEST_TMPDIR
	cat >"$d/agent.c" <<-'END'
		#include <arpa/inet.h>
		#include <stdio.h>
		#include <stdlib.h>
		#include <sys/socket.h>
		static int old;
		void agent(void) {}
		static int dial(void)
		{
			struct sockaddr_in to = {.sin_family = AF_INET,
				.sin_port = htons(atoi(getenv("PORT"))),
				.sin_addr.s_addr = inet_addr(getenv("ADDR"))};
			int fd = socket(AF_INET, SOCK_STREAM, 0);
			return connect(fd, (void *)&to, sizeof(to)) ? -1 : fd;
		}
		static void speak(int fd, const char *when)
		{
			char buf[3000] = "x";
			int i;
			for (i = 0; i < 20; i++)
				if (send(fd, buf, sizeof(buf), MSG_NOSIGNAL) != sizeof(buf) ||
				    recv(fd, buf, sizeof(buf), MSG_WAITALL) != sizeof(buf))
					break;
			printf("%s: %d\n", when, i);
			fflush(stdout);
		}
		__attribute__((constructor)) static void begin(void)
		{
			speak(old = dial(), "constructor");
		}
		__attribute__((destructor)) static void end(void)
		{
			speak(old, "destructor, old stream");
			speak(dial(), "destructor, new stream");
		}
	END
	echo 'void agent(void); int main(void) { agent(); return 0; }' >"$d/main.c"
	"${CC:-gcc}" -w -shared -fPIC -o "$d/libagent.so" "$d/agent.c"
	"${CC:-gcc}" -o "$d/main" "$d/main.c" -L"$d" -lagent -Wl,-rpath,"$d"
	port
	export PORT=$port ADDR
}

@test "a destructor of a library uses an old stream and a new one" {
	local how
	for how in plain rail; do
		REPORT=$d/server start server $how python3 "$SR_TOP/tests/lib/echo.py" \
			server "$ADDR" "$port" 2
		listening "$port"
		$how timeout 30 "$d/main" >"$d/out"
		diff - "$d/out" <<-'END'
			constructor: 20
			destructor, old stream: 20
			destructor, new stream: 20
		END
		stop_all
	done
	went_by_link 180000
}
