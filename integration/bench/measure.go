package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/kolkstreams/kolk/integration/contract"
)

// restart is what restore is called when the state was in place.
const restart = "restart"

// runLimit is how long a run of so many records may take.
func runLimit(records int64) time.Duration {
	return 10*time.Minute + time.Duration(records)*50*time.Microsecond
}

func cpus() int { return runtime.NumCPU() }

// job is what stays the same from the start of a contender to its clean-up.
type job struct {
	flags contract.Flags
}

// newJob makes the output topic and the state directory.
func (s *session) newJob(ctx context.Context, c contender, scenario, guarantee string, d *dataset) (job, error) {
	s.serial++
	app := fmt.Sprintf("bench-%d-%s-%s-%d", s.id, scenario, c.name, s.serial)
	j := job{contract.Flags{
		Brokers: s.cluster.Seeds(), Scenario: scenario, Guarantee: guarantee, Threads: s.o.Threads, AppID: app, StateDir: filepath.Join(s.work, app),
		In: d.topics, Out: app + ".out", Partitions: d.partitions,
	}}
	if err := s.cluster.CreateTopics(ctx, int32(d.partitions), j.flags.Out); err != nil {
		return job{}, err
	}
	return j, os.MkdirAll(j.flags.StateDir, 0o755)
}

// remove deletes what a job left on the broker and on disk.
func (s *session) remove(ctx context.Context, j job) error {
	internal, err := s.internalTopics(ctx, j)
	if err != nil {
		return err
	}
	_, err = s.adm.DeleteTopics(ctx, append(internal, j.flags.Out)...)
	return errors.Join(err, os.RemoveAll(j.flags.StateDir))
}

// noProcess has used no processor time.
const noProcess = -1

// meter holds the processor seconds of a contender, of the brokers and of the machine.
type meter struct{ own, brokers, machine, driver float64 }

// read takes the contender's process id, or noProcess before its start.
func (s *session) read(pid int) meter {
	m := meter{own: cpuSeconds(pid), machine: machineSeconds(), driver: cpuSeconds(os.Getpid())}
	for _, n := range s.cluster.Nodes() {
		m.brokers += cpuSeconds(n.Pid())
	}
	return m
}

// spent fills in the processor time between two readings.
func (r *Result) spent(from, to meter) {
	r.CPU, r.BrokerCPU = to.own-from.own, to.brokers-from.brokers
	r.OtherCPU = max(0, to.machine-from.machine-r.CPU-r.BrokerCPU-(to.driver-from.driver))
}

// memory fills in what the process holds and who in it worked.
func (r *Result) memory(pid int) {
	r.PeakRSS, r.AnonRSS, r.ThreadCPU = memoryMB(pid, peakResident), memoryMB(pid, anonymousResident), threadSeconds(pid)
}

// measure runs a contender over a dataset until everything is committed, and checks the result.
func (s *session) measure(ctx context.Context, c contender, j job, d *dataset, r *Result) (err error) {
	limit, cancel := context.WithTimeout(ctx, runLimit(d.records))
	defer cancel()
	ends, err := s.endOffsets(ctx, d.topics)
	if err != nil {
		return err
	}
	p, err := start(c, j.flags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Kill()) }()
	if err := p.waitRunning(limit); err != nil {
		return err
	}
	before := s.read(p.Pid())
	r.StartS, r.StartCPU = p.running.Sub(p.started).Seconds(), before.own
	if err := s.waitDone(limit, p, j, d, ends, r); err != nil {
		return err
	}
	r.WallS, r.Records = time.Since(p.running).Seconds(), d.records
	r.spent(before, s.read(p.Pid()))
	r.memory(p.Pid())
	took, cpu, err := p.stop()
	if err != nil {
		return err
	}
	r.CloseS, r.TotalCPU = took.Seconds(), cpu
	r.StateMB = diskMB(j.flags.StateDir)

	left, err := s.uncommitted(ctx, j, ends)
	if err != nil {
		return err
	}
	if left > 0 {
		r.Wrong = fmt.Sprintf("%d input records not committed after the close", left)
	}
	if err := s.sizes(ctx, j, r); err != nil {
		return err
	}
	return s.verify(ctx, j, d, r)
}

// again starts a job that was stopped, without new input: a restart as it is, or a restore, for which the state is removed and so are members left in the
// group, whose session timeout would otherwise be what is measured.
func (s *session) again(ctx context.Context, c contender, j job, r *Result) (err error) {
	if r.Scenario == Restore {
		if err := os.RemoveAll(j.flags.StateDir); err != nil {
			return err
		}
		if err := os.MkdirAll(j.flags.StateDir, 0o755); err != nil {
			return err
		}
		if r.Expelled, err = s.expel(ctx, j); err != nil {
			return err
		}
	}
	if err := s.toRunning(ctx, c, j, r); err != nil {
		return err
	}
	if r.Restored != nil {
		r.Records = r.Restored.Records
	}
	return nil
}

// toRunning measures a start.
func (s *session) toRunning(ctx context.Context, c contender, j job, r *Result) (err error) {
	limit, cancel := context.WithTimeout(ctx, runLimit(int64(s.o.Input.Records)))
	defer cancel()
	before := s.read(noProcess)
	p, err := start(c, j.flags)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Kill()) }()
	if err := p.waitRunning(limit); err != nil {
		return err
	}
	r.StartS = p.running.Sub(p.started).Seconds()
	r.WallS, r.Restored = r.StartS, p.restored
	r.spent(before, s.read(p.Pid()))
	r.StartCPU = r.CPU
	r.memory(p.Pid())
	r.StateMB = diskMB(j.flags.StateDir)
	took, cpu, err := p.stop()
	r.CloseS, r.TotalCPU = took.Seconds(), cpu
	return err
}
