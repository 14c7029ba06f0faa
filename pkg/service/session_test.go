package service_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/outboxlab/pkg/service"
)

// keeping runs sessions on a clock of its own until they stop it, and returns what was printed and when each began.
func keeping(t *testing.T, keeper *service.Keeper, session func(n int, life *service.Life, stop func()) error) (printed string, began []time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var out strings.Builder
		keeper.Log = service.NewLogger("test", service.LogConfig{LogFormat: "text", LogLevel: slog.LevelInfo}, &out)
		keeper.What = "working"
		start := time.Now()
		err = keeper.Run(ctx, func(_ context.Context, life *service.Life) error {
			began = append(began, time.Since(start))
			return session(len(began), life, cancel)
		})
		printed = out.String()
	})
	return printed, began, err
}

// Two failures alike but for a port, one of another kind, then success: each reason is told once, and the end of it.
func TestAnOutageIsToldOncePerReason(t *testing.T) {
	t.Parallel()
	outcomes := []error{errors.New("refused on port 51"), errors.New("refused on port 52"), errors.New("no such vhost"), errors.New("refused on port 53"), nil}
	printed, _, err := keeping(t, &service.Keeper{}, func(n int, life *service.Life, stop func()) error {
		if outcomes[n-1] == nil {
			life.Worked()
			stop()
		}
		return outcomes[n-1]
	})
	want := "[test] working: refused on port 51; trying again\n[test] working: no such vhost; trying again\n[test] working works again\n"
	if printed != want || err != nil {
		t.Errorf("%v; printed\n%swant\n%s", err, printed, want)
	}
}

// What lasts is told again each minute.
func TestAnOutageIsToldAgainEachMinute(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	printed, _, _ := keeping(t, &service.Keeper{}, func(n int, _ *service.Life, stop func()) error {
		if n == 1 {
			begin = time.Now()
		}
		if time.Since(begin) > 5*time.Minute {
			stop()
		}
		return errors.New("refused")
	})
	if n := strings.Count(printed, "refused"); n < 4 || n > 6 {
		t.Errorf("told %d times in five minutes:\n%s", n, printed)
	}
}

// A session that breaks as soon as it is ready does not shorten the pauses, and does not count as working.
func TestPausesGrowUntilWorkIsDone(t *testing.T) {
	t.Parallel()
	const sessions = 60
	printed, began, _ := keeping(t, &service.Keeper{}, func(n int, life *service.Life, stop func()) error {
		life.Ready()
		if n == sessions {
			stop()
		}
		return errors.New("closed")
	})
	if slowest := began[sessions-1] - began[sessions-11]; slowest < 20*time.Second { // 5 s with jitter, each
		t.Errorf("ten sessions in %v at the end", slowest)
	}
	if strings.Contains(printed, "works again") {
		t.Error(printed)
	}
}

// A session that works for a moment, again and again, does not fill the log.
func TestSessionsThatWorkForAMomentAreNotToldEachTime(t *testing.T) {
	t.Parallel()
	printed, began, _ := keeping(t, &service.Keeper{}, func(n int, life *service.Life, stop func()) error {
		life.Worked()
		if n == 100 {
			stop()
		}
		return errors.New("closed")
	})
	if lines := strings.Count(printed, "\n"); lines > 2 && began[99] < time.Minute {
		t.Errorf("%d lines in %v:\n%s", lines, began[99], printed)
	}
}

// A session that was ready for a while counts as one that works: there was nothing to do.
func TestAnIdleSessionWorks(t *testing.T) {
	t.Parallel()
	printed, began, _ := keeping(t, &service.Keeper{}, func(n int, life *service.Life, stop func()) error {
		if n < 30 {
			return errors.New("refused")
		}
		life.Ready()
		<-time.After(time.Minute)
		if n == 31 {
			stop()
		}
		return errors.New("closed")
	})
	if !strings.Contains(printed, "works again") {
		t.Error(printed)
	}
	if pause := began[30] - began[29] - time.Minute; pause > time.Second {
		t.Errorf("%v until the next session", pause)
	}
}

// Sessions that cost something follow each other after 2, 4, 8, 16, 32 s, then each minute, until work is done.
func TestCostlySessionsAreFewAndFar(t *testing.T) {
	t.Parallel()
	_, began, _ := keeping(t, &service.Keeper{}, func(n int, life *service.Life, stop func()) error {
		life.Ready()
		switch n {
		case 9:
			life.Worked()
		case 10:
			stop()
		}
		return service.Costly(errors.New("closed"))
	})
	var pauses []time.Duration
	for i := range began[1:] {
		pauses = append(pauses, (began[i+1] - began[i]).Round(time.Second))
	}
	want := "[2s 4s 8s 16s 32s 1m0s 1m0s 1m0s 2s]"
	if got := fmt.Sprint(pauses); got != want {
		t.Errorf("pauses %s, want %s", got, want)
	}
}

// Before anything has worked, a permanent error ends it; afterwards, or if it is optional, it does not.
func TestAPermanentErrorEndsWhatHasNeverWorked(t *testing.T) {
	t.Parallel()
	refused := service.Permanent(errors.New("wrong password"))
	_, began, err := keeping(t, &service.Keeper{}, func(n int, _ *service.Life, _ func()) error {
		if n < 3 {
			return errors.New("not there yet")
		}
		return fmt.Errorf("broker: %w", refused)
	})
	if len(began) != 3 || err == nil || err.Error() != "working: broker: wrong password" {
		t.Errorf("%d sessions, %v", len(began), err)
	}
	for _, optional := range []bool{true, false} {
		_, began, err = keeping(t, &service.Keeper{Optional: optional}, func(n int, life *service.Life, stop func()) error {
			if n == 1 && !optional {
				life.Ready()
			}
			if n == 5 {
				stop()
			}
			return refused
		})
		if len(began) != 5 || err != nil {
			t.Errorf("optional %v: %d sessions, %v", optional, len(began), err)
		}
	}
}

// What the process does without is told once for each reason.
func TestOptionalTroubleIsToldOnce(t *testing.T) {
	t.Parallel()
	printed, _, _ := keeping(t, &service.Keeper{Optional: true}, func(n int, _ *service.Life, stop func()) error {
		if n == 100 {
			stop()
		}
		return service.Costly(errors.New("limit reached"))
	})
	if strings.Count(printed, "limit reached") != 1 {
		t.Error(printed)
	}
}

// A command that runs once does not try again what no waiting heals.
func TestACommandDoesNotRetryWhatIsPermanent(t *testing.T) {
	t.Parallel()
	tries := 0
	_, err := service.Try(t.Context(), time.Hour, func(context.Context) (int, error) {
		tries++
		return 0, service.Permanent(errors.New("wrong password"))
	})
	if tries != 1 || err == nil || err.Error() != "wrong password" {
		t.Errorf("%d tries, %v", tries, err)
	}
}
