// Package exactlyonce is the commit cycle of a worker, for both guarantees.
package exactlyonce
