package kolk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/kolkstreams/kolk/exactlyonce"
	"github.com/kolkstreams/kolk/internal/engine"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Offsets and state belong together. kolk marks every offset that it commits in the offset's metadata, so an offset without the mark, or none
// where state says that there was one, means that somebody moved offsets alone: results would be doubled or lost. This is looked at once per
// start, for the application as a whole: the state may be in another sub-topology than the input.

// suspect is an input whose offsets are not as kolk left them.
type suspect struct {
	sub        *engine.Sub
	topic      string
	partitions []int32
	why        string
	own        bool // only the stores of the same task prove that something is missing
	absent     bool // there are no offsets, which is right for an input that is new
}

// found is what the committed offsets of all inputs say.
type found struct {
	suspects []suspect
	read     map[*engine.Sub]map[uint32]bool // what each sub-topology has read before; nil if that is not known
}

func (in *instance) checkOffsets(ctx context.Context) error {
	if in.c.AllowMovedOffsets {
		return nil
	}
	f, err := in.lookAtOffsets(ctx, false)
	if err != nil || len(f.suspects) == 0 {
		return err
	}
	logs, err := in.logEnds(ctx)
	if err != nil {
		return err
	}
	var proof []string
	for _, s := range f.suspects {
		store, err := in.downstreamState(ctx, s, f, logs)
		if err != nil {
			return err
		}
		if store != "" {
			proof = append(proof, store)
		}
	}
	if len(proof) == 0 {
		return nil // no state yet
	}
	// Another instance may have committed for the first time just now: what is committed in a changelog has its offsets committed too.
	if f, err = in.lookAtOffsets(ctx, true); err != nil {
		return err
	}
	var faults []string
	for _, s := range f.suspects {
		store, err := in.downstreamState(ctx, s, f, logs)
		if err != nil {
			return err
		}
		if store != "" {
			faults = append(faults, fmt.Sprintf("input %s, partitions %v: %s, but store %q has state from it", s.topic, s.partitions, s.why, store))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s; delete the group's offsets, the application's internal topics and the StateDir together to begin anew, or start once with Config.AllowMovedOffsets to go on from these offsets with the state as it is",
		ErrMovedOffsets, strings.Join(faults, "; "))
}

// lookAtOffsets reads the committed offsets of all inputs. With stable it waits for transactions that are under way.
func (in *instance) lookAtOffsets(ctx context.Context, stable bool) (f found, err error) {
	f.read = make(map[*engine.Sub]map[uint32]bool)
	var parts []exactlyonce.TopicPartition
	for _, s := range in.graph.Subs {
		for _, i := range s.Inputs {
			topic := i.Full(in.c.Application)
			for p := range in.topics.count(topic) {
				parts = append(parts, exactlyonce.TopicPartition{Topic: topic, Partition: p})
			}
		}
	}
	offsets, err := in.readOffsets(ctx, parts, stable)
	if err != nil {
		return f, err
	}
	for _, s := range in.graph.Subs {
		for _, i := range s.Inputs {
			topic := i.Full(in.c.Application)
			var foreign, none []int32
			for p := range in.topics.count(topic) {
				c := offsets[exactlyonce.TopicPartition{Topic: topic, Partition: p}]
				if c.Offset < 0 {
					none = append(none, p)
				} else if m, err := engine.DecodeMeta(c.Metadata); err != nil {
					foreign = append(foreign, p)
				} else if !m.Foreign {
					if f.read[s] == nil {
						f.read[s] = make(map[uint32]bool)
					}
					for _, h := range m.Inputs {
						f.read[s][h] = true
					}
				}
			}
			if len(foreign) > 0 {
				f.suspects = append(f.suspects, suspect{sub: s, topic: topic, partitions: foreign, why: "the committed offsets were set by another tool"})
			}
			// A partition that never had a record has no offset either, unless its own task has state. Without transactions state is written before the offsets:
			// a crash in the first commit of a task leaves it without offsets, and that proves nothing as long as others have theirs.
			if n := len(none); n > 0 && (n == int(in.topics.count(topic)) || in.c.Guarantee == ExactlyOnce) {
				f.suspects = append(f.suspects, suspect{sub: s, topic: topic, partitions: none, absent: true, why: "there are no committed offsets", own: n < int(in.topics.count(topic))})
			}
		}
	}
	return f, nil
}

func (in *instance) readOffsets(ctx context.Context, parts []exactlyonce.TopicPartition, stable bool) (map[exactlyonce.TopicPartition]exactlyonce.CommittedOffset, error) {
	if stable {
		// Nothing is fenced: what is open may be another instance's that runs well.
		return exactlyonce.StableOffsets(ctx, in.client, in.c.Application, parts, exactlyonce.StableOptions{TopicID: in.topics.id})
	}
	var got kadm.OffsetResponses
	err := in.patiently(ctx, "committed offsets", func() (err error) {
		got, err = in.adm.FetchOffsets(ctx, in.c.Application)
		return err
	})
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) { // a group that is not there yet has no offsets
		return nil, fmt.Errorf("committed offsets of group %s: %w", in.c.Application, err)
	}
	out := make(map[exactlyonce.TopicPartition]exactlyonce.CommittedOffset, len(parts))
	for _, tp := range parts {
		out[tp] = exactlyonce.CommittedOffset{Offset: -1}
		if r, ok := got.Lookup(tp.Topic, tp.Partition); ok && r.Err == nil && r.At >= 0 {
			out[tp] = exactlyonce.CommittedOffset{Offset: r.At, Metadata: exactlyonce.SplitMetadata(r.Metadata)}
		}
	}
	return out, nil
}

type logEnds struct{ start, end kadm.ListedOffsets }

// logEnds are the ends of all changelogs and repartition topics, read committed.
func (in *instance) logEnds(ctx context.Context) (l logEnds, err error) {
	var names []string
	for _, s := range in.graph.Subs {
		for _, d := range s.Stores {
			if d.Source == "" {
				names = append(names, changelog.Changelog(in.c.Application, d.Name, d.Version))
			}
		}
		for _, o := range s.Outputs {
			if o.Repartition {
				names = append(names, o.Full(in.c.Application))
			}
		}
	}
	if len(names) == 0 {
		return l, nil
	}
	if l.start, err = in.adm.ListStartOffsets(ctx, names...); err != nil {
		return l, fmt.Errorf("ends of internal topics: %w", err)
	}
	if l.end, err = in.adm.ListCommittedOffsets(ctx, names...); err != nil {
		return l, fmt.Errorf("ends of internal topics: %w", err)
	}
	return l, nil
}

// downstreamState is a store with a committed record that an input of s feeds; empty if there is none.
func (in *instance) downstreamState(ctx context.Context, s suspect, f found, logs logEnds) (string, error) {
	all, err := in.downstream(ctx, s, logs)
	if err != nil {
		return "", err
	}
	for _, d := range all {
		sub := d.sub
		if s.own && sub != s.sub || s.absent && f.read[sub] != nil && !f.read[sub][engine.InputHash(d.by)] {
			continue
		}
		for _, d := range sub.Stores {
			if d.Source != "" {
				continue
			}
			var only []int32
			if s.own {
				only = s.partitions
			}
			found, err := in.hasRecord(ctx, changelog.Changelog(in.c.Application, d.Name, d.Version), only, logs)
			if err != nil {
				return "", err
			}
			if found {
				return d.Name, nil
			}
		}
	}
	return "", nil
}

// reached is a sub-topology and the topic by which it is reached first.
type reached struct {
	sub *engine.Sub
	by  string
}

// downstream are the suspect's sub-topology and all that its repartition topics lead to. One through which nothing ever came leads nowhere: at the first start
// a sub-topology may have state long before another that feeds it too has read its first record.
func (in *instance) downstream(ctx context.Context, s suspect, logs logEnds) ([]reached, error) {
	out := []reached{{s.sub, s.topic}}
	seen := map[*engine.Sub]bool{s.sub: true}
	for i := 0; i < len(out); i++ {
		for _, o := range out[i].sub.Outputs {
			for _, next := range in.graph.Subs {
				reads := slices.ContainsFunc(next.Inputs, func(n *engine.Input) bool { return o.Repartition && n.Topic == o.Topic })
				if reads && !seen[next] {
					used, err := in.used(ctx, o.Full(in.c.Application), logs)
					if err != nil {
						return nil, err
					}
					if !used {
						continue
					}
					seen[next] = true
					out = append(out, reached{next, o.Full(in.c.Application)})
				}
			}
		}
	}
	return out, nil
}

// used says whether a repartition topic ever had a committed record. What was read is purged.
func (in *instance) used(ctx context.Context, topic string, logs logEnds) (bool, error) {
	for p := range logs.end[topic] {
		if start, ok := logs.start.Lookup(topic, p); ok && start.Err == nil && start.Offset > 0 {
			return true, nil
		}
	}
	return in.hasRecord(ctx, topic, nil, logs)
}

var errFound = errors.New("found")

// hasRecord says whether an internal topic holds a committed record: in some partitions only, or in any.
func (in *instance) hasRecord(ctx context.Context, topic string, only []int32, logs logEnds) (bool, error) {
	for p, end := range logs.end[topic] {
		start, ok := logs.start.Lookup(topic, p)
		if !ok || start.Err != nil || end.Err != nil || end.Offset <= start.Offset {
			continue
		}
		if only != nil && !slices.Contains(only, p) {
			continue
		}
		_, err := in.reader.Restore(ctx, changelog.Part{Topic: topic, Partition: p, From: changelog.FromStart, End: end.Offset}, func(r []changelog.Record) error {
			if len(r) > 0 {
				return errFound
			}
			return nil
		}, nil)
		if errors.Is(err, errFound) {
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("look for records in %s/%d: %w", topic, p, err)
		}
	}
	return false, nil
}
