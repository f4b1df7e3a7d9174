/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * echo_libevent.c - an echo server on libevent, which has no sample of one.
 * echo_libevent ADDRESS PORT
 */
#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <stdlib.h>

static void on_read(struct bufferevent *bev, void *arg)
{
	(void)arg;
	bufferevent_write_buffer(bev, bufferevent_get_input(bev));
}

/* After the peer's end, what is left is written first. */
static void on_written(struct bufferevent *bev, void *arg)
{
	(void)arg;
	bufferevent_free(bev);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	(void)arg;
	if (!(what & BEV_EVENT_EOF) ||
	    evbuffer_get_length(bufferevent_get_output(bev)) == 0)
		bufferevent_free(bev);
	else
		bufferevent_setcb(bev, NULL, on_written, on_event, NULL);
}

static void on_accept(struct evconnlistener *listener, evutil_socket_t fd,
		      struct sockaddr *sa, int len, void *arg)
{
	struct bufferevent *bev = bufferevent_socket_new(
		evconnlistener_get_base(listener), fd, BEV_OPT_CLOSE_ON_FREE);

	(void)sa, (void)len, (void)arg;
	bufferevent_setcb(bev, on_read, NULL, on_event, NULL);
	bufferevent_enable(bev, EV_READ | EV_WRITE);
}

int main(int argc, char **argv)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct event_base *base = event_base_new();

	if (argc != 3 || !base || inet_pton(AF_INET, argv[1], &sin.sin_addr) != 1)
		return 2;
	sin.sin_port = htons((uint16_t)atoi(argv[2]));
	if (!evconnlistener_new_bind(base, on_accept, NULL,
				     LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE,
				     256, (struct sockaddr *)&sin, sizeof(sin)))
		return 1;
	return event_base_dispatch(base) != 0;
}
