//go:build !linux

package main

import "syscall"

// attributes: a group of its own. Elsewhere than on Linux a kill -9 of this program leaves the
// services running.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
