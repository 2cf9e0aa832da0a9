package serde

// Builtin is the serde a stream takes for T when nobody named one: those of string, []byte, int64, int32, int16, float64, float32,
// bool, [16]byte (UUID) and struct{}. ok is false for other types.
func Builtin[T any]() (s Serde[T], ok bool) {
	for _, known := range builtins {
		if s, ok = known.(Serde[T]); ok {
			return s, true
		}
	}
	return nil, false
}

var builtins = []any{String(), Int64(), Bytes(), Int32(), Int16(), Float64(), Float32(), Bool(), UUID(), None()}
