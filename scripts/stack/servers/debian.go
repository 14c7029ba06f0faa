package servers

// What is in the root file system, and how does mmdebstrap make it from this machine's own Debian mirror?

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// debianSuite is the first Debian release with RabbitMQ 4.3 and PostgreSQL 18.
const debianSuite = "forky"

const (
	debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	// The package would make a cluster under /var/lib/postgresql, where ours are mounted.
	noCluster = `mkdir -p "$1/etc/postgresql-common" && echo "create_main_cluster = false" > "$1/etc/postgresql-common/createcluster.conf"`
)

// debianRecipe is everything about the root that does not depend on this machine; changing it makes a new root.
func debianRecipe() []string {
	return []string{
		"--mode=root", "--format=directory", "--variant=essential",
		"--include=postgresql-18,rabbitmq-server",
		// A suite before its release can stand still for longer than its index says it is good for.
		`--aptopt=Acquire::Check-Valid-Until "false"`,
		`--aptopt=Acquire::Languages "none"`,
		"--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--essential-hook=" + noCluster,
	}
}

// buildDebian runs mmdebstrap, installing it first if needed, and shows its main steps.
func buildDebian(ctx context.Context, target string, progress io.Writer) error {
	if err := installMmdebstrap(ctx, progress); err != nil {
		return err
	}
	args := append(debianRecipe(), "--keyring="+debianKeyring)
	args = append(args, hostAptOptions(ctx)...)
	args = append(args, debianSuite, target)
	if mirror := debianMirror(ctx); mirror != "" {
		args = append(args, mirror)
	}
	// mmdebstrap mounts /dev, /proc and /sys in the target. In namespaces of its own it cannot leave them there, whatever
	// ends it: someone removing the cache later would remove through them.
	const inNamespace = `mount --make-rprivate / && mount -t proc none /proc && mmdebstrap "$@"`
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", inNamespace, "build"}, args...)...)
	isolate(cmd, true)
	return runLogged(cmd, progress, target)
}

// debianMirror is the mirror that this machine's apt already uses for Debian, or empty on another distribution, where
// mmdebstrap knows the standard one.
func debianMirror(ctx context.Context) string {
	if given := os.Getenv("STACK_DEBIAN_MIRROR"); given != "" {
		return given
	}
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages").Output()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(out)) {
		// The label of the security archive is Debian-Security.
		if label, mirror, _ := strings.Cut(strings.TrimSpace(line), " "); label == "Debian" && mirror != "" {
			return mirror
		}
	}
	return ""
}

// hostAptOptions hands on how this machine reaches its mirror (proxy, certificates): mmdebstrap reads none of it.
func hostAptOptions(ctx context.Context) []string {
	out, err := exec.CommandContext(ctx, "apt-config", "dump", "--format", "%F %v%n", "Acquire::http", "Acquire::https").Output()
	if err != nil {
		return nil
	}
	var options []string
	for line := range strings.Lines(string(out)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); value != "" {
			options = append(options, fmt.Sprintf("--aptopt=%s %q", name, value))
		}
	}
	return options
}

// installMmdebstrap installs what the build needs with apt-get, unless it is there.
func installMmdebstrap(ctx context.Context, progress io.Writer) error {
	_, lookErr := exec.LookPath("mmdebstrap")
	_, keyErr := os.Stat(debianKeyring)
	if lookErr == nil && keyErr == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("mmdebstrap and %s are needed, and there is no apt-get to install them with: install them, use Docker, or set STACK=external", debianKeyring)
	}
	fmt.Fprintln(progress, "installing mmdebstrap with apt-get")
	// One broken third-party source fails the update, and the install works all the same.
	updateErr := aptGet(ctx, "update")
	if err := aptGet(ctx, "install", "-y", "--no-install-recommends", "mmdebstrap", "debian-archive-keyring"); err != nil {
		return errors.Join(err, updateErr)
	}
	return nil
}

// aptGet works on this machine itself, so it is never interrupted: a half-installed package would block the next apt-get.
// It waits for another one that installs, such as a new machine's first automatic upgrade.
func aptGet(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "apt-get", append(args, "-q", "-o", "DPkg::Lock::Timeout=600")...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // away from a ctrl-C in the terminal
	return runLogged(cmd, io.Discard, "/var")
}

// runLogged runs a program that works on dir, passes its "I: …" lines on, and explains a failure by what it printed.
func runLogged(cmd *exec.Cmd, progress io.Writer, dir string) error {
	var out bytes.Buffer
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8")
	cmd.Stdout = io.MultiWriter(&out, &stepWriter{to: progress})
	cmd.Stderr = cmd.Stdout
	cmd.WaitDelay = 10 * time.Second
	done, err := startOnOwnThread(cmd)
	if err == nil {
		err = <-done
	}
	if err != nil {
		return explain(fmt.Errorf("%s: %w:\n%s", filepath.Base(cmd.Path), err, lastLines(out.String(), 15)), dir)
	}
	return nil
}

// stepWriter passes on the lines in which mmdebstrap tells what it does, without the repeated progress bars.
type stepWriter struct {
	to      io.Writer
	partial string
}

func (w *stepWriter) Write(p []byte) (int, error) {
	text := w.partial + string(p)
	for {
		line, rest, complete := strings.Cut(text, "\n")
		if !complete {
			w.partial = text
			return len(p), nil
		}
		if step, found := strings.CutPrefix(line, "I: "); found {
			fmt.Fprintln(w.to, "  "+step)
		}
		text = rest
	}
}
