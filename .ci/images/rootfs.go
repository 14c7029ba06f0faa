// Command images prints the path of the Debian root file system that the native stack runs on, and builds it first if
// it is not there. build, beside this file, makes container images of it.
package main

import (
	"context"
	"fmt"
	"os"

	"example.com/outboxlab/scripts/stack/servers"
)

func main() {
	root, err := servers.RootFS(context.Background(), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
	fmt.Println(root)
}
