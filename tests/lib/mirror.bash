# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck shell=bash
#
# Sourced by tests/platform and tests/lab/rdma-vm.

# debian_mirror: that of Debian's releases which is in apt's lists
debian_mirror() {
	local site
	# shellcheck disable=SC2016  # apt's variables
	site=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' 'Created-By: Packages' |
		sed -n 's/^Debian Debian //p' | head -n 1)
	echo "${site:-http://deb.debian.org/debian}"
}
