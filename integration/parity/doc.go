// Package parity holds kolk against Kafka Streams: topologies, their input, and what Kafka Streams 4.3.1 answered, record by record and byte by byte.
// Each case is built with the public DSL, run by topologytest, and compared in its outputs, changelogs, stores and drops.
//
// The vectors are in testdata, one gzipped JSON array for each family of operators. Set KOLK_PARITY to a directory to run others of the same
// format. "make parity" prints how many of each family passed.
package parity
