// Command parity runs the vectors of Kafka Streams and prints `family passed/total`. It fails unless the families that must pass do. KOLK_PARITY=dir runs
// others of the same format; -v shows every case that did not pass.
package main

import (
	"flag"
	"fmt"
	"math"
	"os"

	"github.com/kolkstreams/kolk/integration/parity"
)

func main() {
	all := flag.Bool("v", false, "show all failures, not only the first three of each family")
	flag.Parse()
	if err := run(*all); err != nil {
		fmt.Fprintln(os.Stderr, "parity:", err)
		os.Exit(1)
	}
}

func run(all bool) error {
	vectors, err := parity.Vectors()
	if err != nil {
		return err
	}
	families, err := parity.Run(vectors)
	if err != nil {
		return err
	}
	most := 3
	if all {
		most = math.MaxInt
	}
	return parity.Print(os.Stdout, families, most)
}
