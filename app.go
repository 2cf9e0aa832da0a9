package kolk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/kolkstreams/kolk/topology"
)

// App is a topology with its connection to Kafka. Its methods are safe for use by many goroutines.
type App struct {
	graph  *engine.Graph
	config Config
	status *status
	ran    atomic.Bool
}

// New checks the configuration; it does no I/O. Its error joins everything that is wrong.
func New(t *topology.Topology, c Config) (*App, error) {
	if t == nil {
		return nil, errors.New("kolk: the topology is nil; Build returned an error that was not looked at")
	}
	g := engine.GraphOf(t)
	c.fill()
	if err := c.validate(g); err != nil {
		return nil, err
	}
	c.Logger = c.Logger.With("application", c.Application)
	return &App{graph: g, config: c, status: newStatus(c.Hooks, c.Logger)}, nil
}

// Run joins the group and processes until ctx ends, then commits, hands its tasks over and returns nil. It returns an error if processing had to stop:
// see the package comment. An App runs once; further calls return ErrClosed.
func (a *App) Run(ctx context.Context) error {
	if !a.ran.CompareAndSwap(false, true) {
		return ErrClosed
	}
	err := a.run(ctx)
	if err != nil {
		err = public(err)
		a.status.fail(err)
		return err
	}
	a.status.set(Stopped, "the context of Run ended")
	return nil
}

func (a *App) run(ctx context.Context) (err error) {
	a.status.set(Joining, "connecting to the brokers")
	in, err := start(ctx, a)
	if err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it began
		}
		return err
	}
	select {
	case <-ctx.Done():
	case err = <-in.fatal:
	}
	a.status.set(Stopping, "committing and handing tasks over")
	late := in.stop(err == nil)
	if err == nil {
		select {
		case err = <-in.fatal: // on the way out: the last commit was not made
		default:
			err = late
		}
	}
	return err
}

// WaitReady returns when all tasks of this instance are restored and running, or with an error when ctx ends or the App fails. An instance
// that gets no task, because there are more instances than tasks, is ready as well.
func (a *App) WaitReady(ctx context.Context) error {
	for {
		h, changed := a.status.snapshot()
		switch {
		case h.Ready:
			return nil
		case h.State == Failed:
			return fmt.Errorf("kolk: not ready: %w", h.Err)
		case h.State == Stopped:
			return fmt.Errorf("kolk: not ready: %w", ErrClosed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("kolk: not ready, %s: %w", h.Reason, context.Cause(ctx))
		}
	}
}

// Health is how the App is doing now.
func (a *App) Health() Health {
	h, _ := a.status.snapshot()
	return h
}
