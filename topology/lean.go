package topology

import (
	"time"

	"github.com/kolkstreams/kolk/store"
	"github.com/kolkstreams/kolk/window"
)

// A Go program compiles every method of every generic type that it names, called or not, and what these methods make, and so on: a stream of
// orders would bring windows, sessions and buffers of orders along, and of their counts. A method with a type parameter of its own is
// compiled where it is called. So those that open a large part of the package take one, which is found from the argument.
type (
	windows  interface{ window.Spec }
	sessions interface{ window.SessionSpec }
	bounds   interface{ store.Bound }
	duration interface{ time.Duration }
)
