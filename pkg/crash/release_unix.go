//go:build unix

package crash

import (
	"os"
	"syscall"
)

// releaseSignals end a hold: kill -USR1 PID.
var releaseSignals = []os.Signal{syscall.SIGUSR1}
