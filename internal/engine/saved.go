package engine

import (
	"encoding/json/v2"
	"fmt"
)

// Saved is what a checkpoint says of itself: how far the applied rows go, and what they belong to.
type Saved struct {
	Cluster string               `json:"cluster"` // id of the Kafka cluster
	At      int64                `json:"at"`      // wall clock of the checkpoint, ms
	Stores  map[string]SavedPart `json:"stores"`  // by full store name
	Inputs  map[string]string    `json:"inputs"`  // topic id of each input, by topic
	// Print is the text that the short hashes in the offset metadata stand for, by store name.
	Print map[string]string `json:"print"`
}

// SavedPart is how far a store goes.
type SavedPart struct {
	TopicID string `json:"topic_id"` // of the changelog
	Next    int64  `json:"next"`     // the first changelog offset that is not applied
}

// Encode is s as bytes, for a backend.
func (s Saved) Encode() ([]byte, error) { return json.Marshal(s, json.Deterministic(true)) }

// DecodeSaved reads what Encode wrote; nil data is the zero Saved.
func DecodeSaved(data []byte) (s Saved, err error) {
	if data == nil {
		return s, nil
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("checkpoint data: %w", err)
	}
	return s, nil
}
