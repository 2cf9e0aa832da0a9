package badgerstore

import (
	"log/slog"
	"math/bits"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Config is how a store is opened. The zero value works.
type Config struct {
	// Memory is the store's share of the process's memory for Badger's memtables, in bytes. They take between 2 and 64 MiB each, of which
	// there may be three and a half at a time. 0 means 56 MiB. The large segments that are being written have one or two of 8 MiB each beside.
	Memory int64
	// SizeHint is how large the rows are expected to become, in bytes. Levels and tables of a store over 256 MiB are laid out for its size;
	// what is on disk already counts without a hint.
	SizeHint int64
	// MinFree is the number of bytes that must stay free on the file system. Badger writes through memory maps, and a full disk then kills the
	// process with SIGBUS, so every write looks first. 0 means 128 MiB; a negative number means no check.
	MinFree int64
	// LoadMemory is how many bytes of rows a bulk load sorts in memory before it writes them to a temporary file. 0 means 64 MiB.
	LoadMemory int64
	// OpenSegments is how many segments with a database of their own are kept open, at up to 12 MB each. 0 means 16.
	OpenSegments int
	// Verify reads all tables at open and checks their checksums. It costs a read of the whole store.
	Verify bool
	// Logger gets Badger's warnings and errors. nil means slog.Default.
	Logger *slog.Logger
	// BootID names the present boot of the machine. Two boots have two names; "" means unknown, and then only a store that was closed clean
	// is trusted. nil means the operating system's.
	BootID func() string

	fault           func(step string) error // tests: called before each step that changes the disk
	memtable        int64                   // tests: instead of what Memory leads to
	segmentMemtable int64                   // tests: the same of a segment
	segmentRows     int64                   // tests: from how many rows a segment has a database of its own
	segmentBytes    int64                   // tests: from how many bytes
	valueLog        int64                   // tests: the size of a value log file
	free            func(dir string) (int64, error)
}

const (
	minMemtable     = 2 << 20
	maxMemtable     = 64 << 20
	defaultMemory   = 56 << 20
	defaultMinFree  = 128 << 20
	defaultLoad     = 64 << 20
	defaultSegments = 16

	// From this size on a segment has a database of its own: dropping it then costs less than deleting its rows.
	segmentRows  = 100_000
	segmentBytes = 8 << 20
	// A segment's memtable. It must not become smaller in a later release: Badger cannot replay a larger one's log.
	defaultSegmentMemtable = 8 << 20
	// So many tables of a segment lie beside each other before they are merged, and below that there is mostly one level: each row is written three or four times
	// instead of ten, and half the processor time of a large segment's writes is saved. A read asks more tables, most of whose filters deny at once. A smaller level
	// would go on to the next one table at a time; what lies beside each other cannot be merged with it meanwhile, is merged with itself instead, and takes
	// hundreds of megabytes for that.
	segmentRuns  = 30
	segmentLevel = 512 << 20
	// A merge builds a dozen tables at a time, each in six times its size of memory. So they are small, also at the lower levels.
	segmentTable = 1 << 20
	// Of blocks that were read, which are decompressed.
	segmentCache = 1 << 20

	largeStore   = 256 << 20
	maxBaseLevel = 1 << 30
)

func (c Config) withDefaults() Config {
	def := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.Memory, defaultMemory)
	def(&c.MinFree, defaultMinFree)
	def(&c.LoadMemory, defaultLoad)
	def(&c.memtable, min(max(c.Memory*2/7, minMemtable), maxMemtable))
	def(&c.segmentMemtable, defaultSegmentMemtable)
	def(&c.segmentRows, segmentRows)
	def(&c.segmentBytes, segmentBytes)
	def(&c.valueLog, 64<<20)
	if c.OpenSegments <= 0 {
		c.OpenSegments = defaultSegments
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.BootID == nil {
		c.BootID = bootID
	}
	if c.free == nil {
		c.free = freeBytes
	}
	if c.fault == nil {
		c.fault = func(string) error { return nil }
	}
	return c
}

// badgerOptions are for the database in dir, with the given memtable and bytes of rows.
func (c Config) badgerOptions(dir string, memtable, size int64) badger.Options {
	// A value up to the threshold must fit a write request, which may have 15 % of the memtable, beside the longest key.
	threshold := min(1<<20, memtable*15/100-(66<<10))
	o := badger.DefaultOptions(dir).
		WithMemTableSize(memtable).
		WithNumMemtables(2).
		WithNumCompactors(2).
		WithNumLevelZeroTables(5).
		WithNumLevelZeroTablesStall(15).
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithIndexCacheSize(0).
		WithValueThreshold(threshold).
		WithValueLogFileSize(c.valueLog).
		WithSyncWrites(false).
		WithDetectConflicts(false).
		WithNumVersionsToKeep(1).
		WithMetricsEnabled(false).
		WithLogger(&logger{to: c.Logger, dir: dir})
	if size > largeStore {
		base := int64(1) << bits.Len64(uint64(size-1))
		o = o.WithBaseTableSize(8 << 20).WithBaseLevelSize(min(base, maxBaseLevel)).
			WithNumLevelZeroTables(10).WithNumLevelZeroTablesStall(30)
	}
	if c.Verify {
		o = o.WithChecksumVerificationMode(options.OnTableRead)
	}
	return o
}

// segmentOptions are for the database of a segment. Its rows are small and many, and more than half of each is what Badger and the store put around key and
// value: places in time, versions, lengths, much the same in all of them. Compression takes that away for little, since a segment is mostly written and seldom read.
func (c Config) segmentOptions(dir string) badger.Options {
	o := c.badgerOptions(dir, c.segmentMemtable, 0).
		WithNumMemtables(1).
		WithNumLevelZeroTables(segmentRuns).
		WithNumLevelZeroTablesStall(2 * segmentRuns).
		WithBaseLevelSize(segmentLevel).
		WithBaseTableSize(segmentTable).
		WithValueLogFileSize(1 << 20).
		WithCompression(options.Snappy).
		WithBlockCacheSize(segmentCache)
	o.TableSizeMultiplier = 1
	return o
}
