package kolk

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/twmb/franz-go/pkg/kerr"
)

func TestPasses(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{io.EOF, true},
		{refused, true},
		{kerr.CoordinatorNotAvailable, true},
		{errors.Join(fmt.Errorf("ends of changelogs: %w", io.EOF)), true},
		{kerr.GroupAuthorizationFailed, false},
		{&TopicError{Topic: "words"}, false},
		{errors.Join(&changelog.TopicError{Topic: "words"}, kerr.UnknownTopicOrPartition), false},
		{ErrMovedOffsets, false},
	} {
		if got := passes(c.err); got != c.want {
			t.Errorf("%v passes: %v", c.err, got)
		}
	}
}

// A broker that restarts while an instance starts does not end it.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &instance{log: slog.New(slog.DiscardHandler)}
		calls := 0
		err := in.patiently(t.Context(), "offsets", func() error {
			if calls++; calls < 5 {
				return io.EOF
			}
			return nil
		})
		if err != nil || calls != 5 {
			t.Errorf("%d calls, %v", calls, err)
		}
		if err := in.patiently(t.Context(), "offsets", func() error { return io.EOF }); !errors.Is(err, io.EOF) {
			t.Errorf("an outage that does not pass: %v", err)
		}
		if err := in.patiently(t.Context(), "offsets", func() error { return ErrMovedOffsets }); !errors.Is(err, ErrMovedOffsets) {
			t.Errorf("an error that does not pass: %v", err)
		}
	})
}
