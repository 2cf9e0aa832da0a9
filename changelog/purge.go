package changelog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
)

// Purge deletes the records of repartition topics before the given offsets, which must be committed by their reader: nobody reads them again. Nothing else bounds these
// topics. Its error joins what failed, each with topic, partition and offset; the rest is deleted nevertheless, and what failed is covered by the next call. It refuses
// changelogs.
func Purge(ctx context.Context, adm *kadm.Client, committed map[string]map[int32]int64) error {
	var faults []error
	upTo := make(map[string]map[int32]int64)
	for topic, partitions := range committed {
		if strings.HasSuffix(topic, changelogSuffix) {
			faults = append(faults, fmt.Errorf("purging %s: it is a changelog, its records are state", topic))
			continue
		}
		upTo[topic] = partitions
	}
	return errors.Join(append(faults, deleteBefore(ctx, adm, upTo))...)
}

// Expire deletes the records of windowed changelogs before the given offsets, all of which must be of entries that have expired in their store: none will be read again.
// Where the broker's own limit of age is off, see [Protect], nothing else bounds these topics. The error is as that of [Purge].
func Expire(ctx context.Context, adm *kadm.Client, expired map[string]map[int32]int64) error {
	return deleteBefore(ctx, adm, expired)
}

func deleteBefore(ctx context.Context, adm *kadm.Client, upTo map[string]map[int32]int64) error {
	offsets := kadm.Offsets{}
	var faults []error
	for topic, partitions := range upTo {
		for p, at := range partitions {
			if at > 0 { // -1 would mean everything there is
				offsets.Add(kadm.Offset{Topic: topic, Partition: p, At: at})
			}
		}
	}
	if len(offsets) == 0 {
		return errors.Join(faults...)
	}
	done, err := adm.DeleteRecords(ctx, offsets)
	if err != nil {
		faults = append(faults, fmt.Errorf("purging internal topics: %w", err))
	}
	for _, topic := range slices.Sorted(maps.Keys(done)) {
		for _, p := range slices.Sorted(maps.Keys(done[topic])) {
			if err := done[topic][p].Err; err != nil {
				faults = append(faults, fmt.Errorf("purging %s/%d up to offset %d: %w", topic, p, offsets[topic][p].At, err))
			}
		}
	}
	return errors.Join(faults...)
}
