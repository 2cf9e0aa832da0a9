package state

// Segmenting is a Live that keeps rows in segments of its backend, which is a Segmented then.
type Segmenting interface {
	Live
	// FreezeSegments goes with the Freeze just before it, for the same checkpoint: the rows that it moved into the frozen layer and that
	// belong into segments, and the segments that have expired as a whole. Applied ends both.
	FreezeSegments() (rows []SegmentBatch, drop []Segment)
}

// Opener is a Live whose public interface is that of another value.
type Opener interface {
	Live
	// Opened is what processors get.
	Opened() any
}

// Ageing is a Live whose entries are gone, or lose their history, by how far the largest time that was written to it is past them.
type Ageing interface {
	Live
	// Observed is that time in ms, dirty writes included; negative before the first. It may read the backend.
	Observed() int64
}
