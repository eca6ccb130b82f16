#!/bin/sh
# emulator.sh [-E NAME=VALUE] COMMAND... - run a program for aarch64 on this machine.
ulimit -v 4000000
exec qemu-aarch64 "$@"
