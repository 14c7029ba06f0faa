# Runs one server program from the Debian root file system, as process 1 of its own mount, process and IPC
# namespaces. Process 1 is this shell and not the server, for two reasons: the kernel drops the "die with your
# parent" flag when a process changes its user, and whoever ends this shell ends everything inside with it.
# Usage: sh -c SCRIPT namespace ROOT DATA MOUNTPOINT USER COMMAND [ARGUMENT…]
set -eu
root=$1 data=$2 mountpoint=$3 user=$4
shift 4

umask 022                               # whatever root's is: the server reads again what it writes
mount --make-rprivate /                 # nothing mounted below is seen outside
mount --bind "$root" "$root"
mount -o remount,bind,ro "$root"        # many servers share this root: none may change it
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"    # PostgreSQL's shared memory, gone with the namespace
mount -t tmpfs tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount --bind "$data" "$root$mountpoint"

chroot --userspec="$user:$user" "$root" "$@" &
server=$!
trap 'kill -TERM "$server"' TERM        # a second wait, because a trapped signal interrupts the first
wait "$server" || wait "$server"
