// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// HTTP that gives back what is posted, with node.
//
// node http.js server ADDRESS PORT
// node http.js client ADDRESS PORT REQUESTS     over 20 kept connections
"use strict";
const http = require("http");
const crypto = require("crypto");
const [role, host, port, requests] = process.argv.slice(2);

if (role === "server") {
	http.createServer((req, res) => req.pipe(res)).listen(port, host);
	process.on("SIGTERM", () => process.exit(0));
} else {
	const agent = new http.Agent({ keepAlive: true, maxSockets: 20 });
	const found = [];
	let left = +requests;
	const hash = (data) => crypto.createHash("sha256").update(data).digest("hex");
	for (let i = 0; i < requests; i++) {
		const size = i === 0 ? 8000000 : (i * 7919) % 100000;
		const body = Buffer.alloc(size, hash(String(i)));
		const req = http.request({ host, port, agent, method: "POST" }, (res) => {
			const parts = [];
			res.on("data", (data) => parts.push(data));
			res.on("end", () => {
				found[i] = hash(Buffer.concat(parts));
				if (found[i] !== hash(body)) throw new Error(`answer ${i} differs`);
				if (--left === 0) {
					console.log(requests, hash(found.join()));
					agent.destroy();
				}
			});
		});
		req.end(body);
	}
}
