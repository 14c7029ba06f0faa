//go:build !unix

package crash

import "os"

// releaseSignals is empty where there is no signal to spare: a hold lasts until the process is ended.
var releaseSignals []os.Signal
