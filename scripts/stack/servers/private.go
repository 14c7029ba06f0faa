package servers

// Where does a private pair keep its data, and who removes what a killed test run left there?

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const privatePattern = "outboxlab-pair-"

// makePrivateDir makes a temporary directory and holds its lock, by which others see that it is in use. It also sweeps.
func makePrivateDir() (dir string, lock *os.File, err error) {
	sweep()
	dir, err = os.MkdirTemp("", privatePattern)
	if err != nil {
		return "", nil, err
	}
	if lock, err = os.Create(filepath.Join(dir, "lock")); err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	// The servers' users look into it from below, not from above.
	if err = errors.Join(err, os.Chmod(dir, 0o755)); err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// sweep removes the directories of pairs whose owner was killed: nobody holds their lock any more. The servers
// themselves have died with the owner. What cannot be removed is left for the next time.
func sweep() {
	locks, _ := filepath.Glob(filepath.Join(os.TempDir(), privatePattern+"*", "lock"))
	for _, path := range locks {
		info, err := os.Stat(path)
		if err != nil || time.Since(info.ModTime()) < time.Minute { // it may be between its creation and its lock
			continue
		}
		lock, err := os.Open(path)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(filepath.Dir(path))
		}
		_ = lock.Close()
	}
}
