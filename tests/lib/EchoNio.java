// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// TCP echo with a Selector, one thread.
//
// java EchoNio server ADDRESS PORT
// java EchoNio client ADDRESS PORT STREAMS BYTES     all at once
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.Random;
import java.util.zip.CRC32;

public class EchoNio {
	// What has been read and not been written back; or what is to be sent.
	static class Stream {
		ByteBuffer data = ByteBuffer.allocate(16384), got;
		boolean end;
	}

	static Selector selector;

	static void echo(SelectionKey key) throws Exception {
		SocketChannel channel = (SocketChannel) key.channel();
		Stream s = (Stream) key.attachment();
		if (key.isReadable() && channel.read(s.data) < 0)
			s.end = true;
		s.data.flip();
		channel.write(s.data);
		s.data.compact();
		if (s.end && s.data.position() == 0) {
			channel.close();
			return;
		}
		key.interestOps((s.end || !s.data.hasRemaining() ? 0 : SelectionKey.OP_READ) |
				(s.data.position() > 0 ? SelectionKey.OP_WRITE : 0));
	}

	static void serve(InetSocketAddress address) throws Exception {
		ServerSocketChannel listener = ServerSocketChannel.open();
		listener.bind(address, 256).configureBlocking(false);
		listener.register(selector, SelectionKey.OP_ACCEPT);
		for (;;)
			selector.select(key -> {
				try {
					if (key.isAcceptable()) {
						SocketChannel c = listener.accept();
						c.configureBlocking(false);
						c.register(selector, SelectionKey.OP_READ, new Stream());
					} else {
						echo(key);
					}
				} catch (Exception e) {
					throw new RuntimeException(e);
				}
			});
	}

	// One event of a client's stream; true if it was the last
	static boolean talk(SelectionKey key) throws Exception {
		SocketChannel channel = (SocketChannel) key.channel();
		Stream s = (Stream) key.attachment();
		if (key.isConnectable()) {
			channel.finishConnect();
			key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
			return false;
		}
		if (key.isWritable()) {
			channel.write(s.data);
			if (!s.data.hasRemaining()) {
				channel.shutdownOutput();
				key.interestOps(SelectionKey.OP_READ);
			}
		}
		if (!key.isReadable() || channel.read(s.got) >= 0 && s.got.hasRemaining())
			return false;
		if (!s.got.flip().equals(s.data.rewind()))
			throw new Exception("echo differs: " + s.got);
		channel.close();
		return true;
	}

	static void ask(InetSocketAddress address, int streams, int bytes) throws Exception {
		CRC32 crc = new CRC32();
		for (int i = 0; i < streams; i++) {
			Stream s = new Stream();
			byte[] data = new byte[bytes];
			new Random(i).nextBytes(data);
			crc.update(data);
			s.data = ByteBuffer.wrap(data);
			s.got = ByteBuffer.allocate(bytes);
			SocketChannel c = SocketChannel.open();
			c.configureBlocking(false);
			boolean connected = c.connect(address);
			c.register(selector, connected ? SelectionKey.OP_READ | SelectionKey.OP_WRITE
					: SelectionKey.OP_CONNECT, s);
		}
		int[] left = { streams };
		while (left[0] > 0)
			selector.select(key -> {
				try {
					if (talk(key))
						left[0]--;
				} catch (Exception e) {
					throw new RuntimeException(e);
				}
			});
		System.out.println(streams + " " + crc.getValue());
	}

	public static void main(String[] a) throws Exception {
		InetSocketAddress address = new InetSocketAddress(a[1], Integer.parseInt(a[2]));
		selector = Selector.open();
		if (a[0].equals("server"))
			serve(address);
		else
			ask(address, Integer.parseInt(a[3]), Integer.parseInt(a[4]));
	}
}
