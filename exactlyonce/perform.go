package exactlyonce

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// How often the identity is looked at while waiting for a new generation.
const awaitPause = 10 * time.Millisecond

// ownerPause is the wait between two looks at the membership while records are flushed.
const ownerPause = 20 * time.Millisecond

// stopGrace is how long an EndTxn may go on once the caller's context has ended. Then its client is closed under it.
const stopGrace = 5 * time.Second

// flushLimit is how long a flush may take at-least-once, where no transaction ends.
const flushLimit = 2 * time.Minute

// requests says whose error it is when an action fails.
var requests = [...]Request{
	actBegin: ReqBegin, actRegister: ReqRegister, actStage: ReqStage, actFlush: ReqProduce, actAddOffsets: ReqAddOffsets,
	actTxnOffsets: ReqTxnOffsetCommit, actOffsets: ReqOffsetCommit, actEndCommit: ReqEndCommit, actEndAbort: ReqEndAbort,
	actDiscard: ReqEndAbort, actReopen: ReqInitProducerID, actCompare: ReqOffsetFetch, actReturn: reqNone,
}

// perform does one action and says what came of it.
func (d *Driver) perform(ctx context.Context, a action) event {
	if a.wait > 0 && !sleep(ctx, a.wait) {
		return failed(requests[a.kind], ended(ctx))
	}
	switch a.kind {
	case actGuard:
		id, ok := d.cfg.Identity()
		if !ok {
			return event{kind: evStranger}
		}
		d.identity = id
		return event{kind: evOwner, identity: id}
	case actAwait:
		return d.await(ctx)
	case actStage:
		return d.stage(ctx)
	case actFlush:
		return d.flush(ctx)
	case actCompare:
		committed, err := d.compare(ctx)
		switch {
		case err != nil:
			return d.result(ctx, ReqOffsetFetch, err)
		case !committed:
			return event{kind: evDenied}
		}
		return event{kind: evDone}
	case actCommitted:
		d.p.Committed()
		return event{kind: evDone}
	case actRollback:
		d.p.Rollback()
		return event{kind: evDone}
	}
	var err error
	switch a.kind {
	case actBegin:
		err = d.begin(ctx)
	case actRegister:
		err = d.addPartitions(ctx)
	case actAddOffsets:
		err = d.addOffsets(ctx)
	case actTxnOffsets:
		err = d.commitTxnOffsets(ctx)
	case actOffsets:
		err = d.commitOffsets(ctx)
	case actEndCommit:
		// Whether ctx has ended does not matter here: an EndTxn that is cut off has an unknown outcome.
		return d.end(ctx, ReqEndCommit, kgo.TryCommit)
	case actEndAbort, actDiscard:
		return d.abort(ctx, a.kind == actEndAbort)
	case actReopen:
		err = d.reopen(ctx)
	}
	return d.result(ctx, requests[a.kind], err)
}

// result turns an error into an event. If the caller's context has ended, that is the reason, whatever the client says.
func (d *Driver) result(ctx context.Context, req Request, err error) event {
	switch {
	case err == nil:
		return event{kind: evDone}
	case ctx.Err() != nil:
		return failed(req, ended(ctx))
	}
	return failed(req, err)
}

func failed(req Request, err error) event { return event{kind: evFailed, req: req, err: err} }

func ended(ctx context.Context) error { return fmt.Errorf("%w: %w", errEnded, context.Cause(ctx)) }

// sleep waits and says whether ctx is still going.
func sleep(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (d *Driver) begin(ctx context.Context) error {
	if err := d.cl.BeginTransaction(); err != nil {
		return err
	}
	// The id is settled now. If it is another one at the commit, the client gave up this transaction in between.
	var err error
	d.pid, d.epoch, err = d.cl.ProducerID(ctx)
	return err
}

func (d *Driver) stage(ctx context.Context) event {
	if d.cfg.Guarantee == AtLeastOnce && d.produced > 0 {
		// Without a transaction a crash may leave some of the records only. If changes came through without the outputs that go with them, such as the
		// result that a suppression has just let go, these would not come again.
		if ev := d.flush(ctx); ev.kind != evDone {
			return ev
		}
	}
	err := d.sends.err()
	if err != nil {
		return d.result(ctx, ReqProduce, err)
	}
	if err = d.p.Stage(func(r *kgo.Record) { d.Produce(ctx, r) }); err != nil {
		return d.result(ctx, ReqStage, fmt.Errorf("%w: %w", ErrStage, err))
	}
	return event{kind: evDone}
}

// flush waits for every acknowledgement, though not for ever: the broker ends a transaction after its timeout, and a client
// that got stuck is best replaced.
func (d *Driver) flush(ctx context.Context) event {
	limit := d.cfg.Timeout
	if d.cfg.Guarantee == AtLeastOnce {
		limit = max(limit, flushLimit)
	}
	held, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	bounded, cancel := context.WithTimeoutCause(held, limit, errStuck)
	defer cancel()
	if d.cfg.Guarantee == AtLeastOnce {
		var watching sync.WaitGroup
		defer watching.Wait()
		defer cancel()
		watching.Go(func() { d.loseWith(bounded, lose) })
	}
	err := d.cl.Flush(bounded)
	if err != nil {
		if err = context.Cause(bounded); err == ErrRefused {
			return event{kind: evStranger}
		}
	} else {
		err = d.sends.err()
	}
	return d.result(ctx, ReqProduce, err)
}

// loseWith calls lose when the membership is lost. Without a transaction nothing refuses what is still to be written, and a new owner may have read its changelog by then: records
// that wait for a broker must not come through later.
func (d *Driver) loseWith(ctx context.Context, lose context.CancelCauseFunc) {
	for {
		if id, ok := d.cfg.Identity(); !ok || id.Member != d.identity.Member {
			lose(ErrRefused)
			return
		}
		if !sleep(ctx, ownerPause) {
			return
		}
	}
}

// await looks for another generation of the same member.
func (d *Driver) await(ctx context.Context) event {
	deadline := time.Now().Add(d.cfg.GenerationWait)
	for {
		id, ok := d.cfg.Identity()
		switch {
		case !ok || id.Member != d.identity.Member:
			return event{kind: evStranger}
		case id.Generation != d.identity.Generation:
			d.identity = id
			return event{kind: evOwner, identity: id}
		case !time.Now().Before(deadline):
			return event{kind: evTimeout}
		}
		if !sleep(ctx, awaitPause) {
			return failed(ReqTxnOffsetCommit, ended(ctx))
		}
	}
}

// end ends the transaction with a context that cannot be cancelled: a cut-off EndTxn leaves the client in doubt.
func (d *Driver) end(ctx context.Context, req Request, try kgo.TransactionEndTry) event {
	stop := d.watch(ctx)
	defer stop()
	d.loaded.settle(func(topic string) int32 { leader, _, _ := d.cl.PartitionLeader(topic, 0); return leader })
	if err := d.cl.EndTransaction(context.WithoutCancel(ctx), try); err != nil {
		return failed(req, err)
	}
	return event{kind: evDone}
}

// watch closes the client some time after ctx has ended, so that what cannot be cancelled cannot hang a process that stops.
func (d *Driver) watch(ctx context.Context) (stop func()) {
	cl := d.cl
	done := make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(stopGrace)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
			cl.Close()
		}
	})
	return func() {
		unhook()
		close(done)
	}
}

// abort drops what is buffered and ends the transaction, if there is one. It waits for what is under way for as long as the
// transaction could live; a new client is quicker then.
func (d *Driver) abort(ctx context.Context, transaction bool) event {
	limit := d.cfg.Timeout
	if ctx.Err() != nil {
		limit = min(limit, stopGrace)
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	if err := d.cl.AbortBufferedRecords(bounded); err != nil {
		return failed(ReqEndAbort, fmt.Errorf("dropping buffered records: %w", err))
	}
	if !transaction {
		return event{kind: evDone}
	}
	return d.end(ctx, ReqEndAbort, kgo.TryAbort)
}
