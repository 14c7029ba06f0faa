package servers

// What should the reader of an error do? Known causes are found in what a failed program printed.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

var (
	// errAddressInUse marks a server that could not listen on its port.
	errAddressInUse = errors.New("a port is taken by another program: choose others by POSTGRES_PORT, AMQP_PORT, RABBITMQ_MANAGEMENT_PORT")
	errDiskFull     = errors.New("the disk is full: free about 1 GB")
)

var knownCauses = []struct {
	signs  []string // in lower case
	advice error
}{
	{[]string{"no space left on device", "enospc"},
		errDiskFull},
	{[]string{"address already in use", "eaddrinuse", "port is already allocated", "dist_port_already_used"},
		errAddressInUse},
	{[]string{"no_pubkey", "is not signed", "public key is not available"},
		errors.New("this machine does not know the key of Debian's archive: upgrade the package debian-archive-keyring")},
	{[]string{"unable to locate package", "has no installation candidate", "does not have a release file"},
		errors.New("the mirror of this machine does not carry what is needed: set STACK_DEBIAN_MIRROR to another Debian mirror")},
	{[]string{"could not resolve", "temporary failure resolving", "unable to connect", "could not connect", "failed to fetch", "connection timed out"},
		errors.New("a download failed: see whether `apt-get update` works on this machine (network, proxy), then run the same command again")},
}

// explain puts the advice for a known cause before the error; dir is where the disk may be full.
func explain(err error, dir string) error {
	text := strings.ToLower(err.Error())
	for _, cause := range knownCauses {
		if !slices.ContainsFunc(cause.signs, func(sign string) bool { return strings.Contains(text, sign) }) {
			continue
		}
		if errors.Is(cause.advice, errDiskFull) {
			return fmt.Errorf("%w, at %s\n%w", cause.advice, dir, err)
		}
		return fmt.Errorf("%w\n%w", cause.advice, err)
	}
	return err
}
