/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * echo_libuv.c - an echo server on libuv.
 * echo_libuv ADDRESS PORT
 */
#include <stdlib.h>
#include <uv.h>

struct answer {
	uv_write_t req;
	uv_buf_t buf;
};

static void on_close(uv_handle_t *handle)
{
	free(handle);
}

static void end(uv_handle_t *handle)
{
	if (!uv_is_closing(handle))
		uv_close(handle, on_close);
}

static void on_shutdown(uv_shutdown_t *req, int status)
{
	(void)status;
	end((uv_handle_t *)req->handle);
	free(req);
}

static void on_written(uv_write_t *req, int status)
{
	struct answer *answer = (struct answer *)req;

	if (status < 0)
		end((uv_handle_t *)req->handle);
	free(answer->buf.base);
	free(answer);
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
	(void)handle;
	*buf = uv_buf_init(malloc(size), (unsigned int)size);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct answer *answer;

	if (n > 0) {
		answer = malloc(sizeof(*answer));
		answer->buf = uv_buf_init(buf->base, (unsigned int)n);
		uv_write(&answer->req, stream, &answer->buf, 1, on_written);
		return;
	}
	free(buf->base);
	if (n == UV_EOF) /* after what has been queued */
		uv_shutdown(malloc(sizeof(uv_shutdown_t)), stream, on_shutdown);
	else if (n < 0)
		end((uv_handle_t *)stream);
}

static void on_connection(uv_stream_t *listener, int status)
{
	uv_tcp_t *stream = malloc(sizeof(*stream));

	uv_tcp_init(listener->loop, stream);
	if (status == 0 && uv_accept(listener, (uv_stream_t *)stream) == 0)
		uv_read_start((uv_stream_t *)stream, on_alloc, on_read);
	else
		end((uv_handle_t *)stream);
}

int main(int argc, char **argv)
{
	struct sockaddr_in sin;
	uv_tcp_t listener;

	if (argc != 3 || uv_ip4_addr(argv[1], atoi(argv[2]), &sin) < 0)
		return 2;
	uv_tcp_init(uv_default_loop(), &listener);
	if (uv_tcp_bind(&listener, (struct sockaddr *)&sin, 0) < 0 ||
	    uv_listen((uv_stream_t *)&listener, 256, on_connection) < 0)
		return 1;
	return uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}
