package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/cmplx"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/tuneinsight/lattigo/v6/circuits/ckks/bootstrapping"
	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
)

// sets are Lattigo's default sets, under Lattigo's names.
var sets = map[string]struct {
	scheme    ckks.ParametersLiteral
	bootstrap bootstrapping.ParametersLiteral
}{
	"N16QP1546H192H32": {
		bootstrapping.N16QP1546H192H32.SchemeParams, bootstrapping.N16QP1546H192H32.BootstrappingParams,
	},
	"N16QP1767H32768H32": {
		bootstrapping.N16QP1767H32768H32.SchemeParams, bootstrapping.N16QP1767H32768H32.BootstrappingParams,
	},
}

// garbagePercent is the share of garbage in the heap, in percent, once the keys are made. The keys
// are large blocks without pointers, so the collector takes next to no time. The usual 100 would
// double twelve gigabytes.
const garbagePercent = 5

// measured is the output of a process. Fields that our own process prints too have the same meaning
// there.
type measured struct {
	Set              string    `json:"set"`
	SizeLog2         int       `json:"size_log2"`
	Slots            int       `json:"slots"`
	ModulusLog2      float64   `json:"modulus_log2"`
	Threads          int       `json:"threads"`
	WarmUpSeconds    float64   `json:"warm_up_seconds"`
	Seconds          []float64 `json:"seconds"`
	GarbageSeconds   float64   `json:"garbage_cpu_seconds"`
	Level            int       `json:"level"`
	MeanBits         float64   `json:"mean_bits"`
	WorstBits        float64   `json:"worst_bits"`
	KeyBytes         int       `json:"key_bytes"`
	RotationKeys     int       `json:"rotation_keys"`
	RotationKeyBytes int       `json:"rotation_key_bytes"`
	PeakBytes        uint64    `json:"peak_bytes"`
}

func bootstrap(arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("bootstrap", flag.ContinueOnError)
	set := flags.String("set", "N16QP1546H192H32", "one of Lattigo's default sets")
	sizeLog2 := flags.Int("size-log2", 16, "log2 of N; below 16 the set protects nothing")
	rounds := flags.Int("rounds", 1, "bootstraps to time, after one that warms up")
	threads := flags.Int("threads", 1, "threads, each of which does a bootstrap of its own at the same time")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *rounds < 1 || *threads < 1 {
		return fmt.Errorf("at least one round and one thread, not %d and %d", *rounds, *threads)
	}
	runtime.GOMAXPROCS(*threads)
	params, err := parameters(*set, *sizeLog2)
	if err != nil {
		return err
	}
	evaluator, secret, err := prepare(params)
	if err != nil {
		return err
	}
	found := measured{Set: *set, SizeLog2: *sizeLog2, Slots: 1 << params.LogMaxSlots(), Threads: *threads}
	found.ModulusLog2 = params.BootstrappingParameters.LogQP()
	found.KeyBytes = evaluator.EvaluationKeys.BinarySize()
	for _, element := range evaluator.GetGaloisKeysList() {
		key, err := evaluator.GetGaloisKey(element)
		if err != nil {
			return err
		}
		found.RotationKeys++
		found.RotationKeyBytes += key.BinarySize()
	}
	if err := found.measure(evaluator, secret, *rounds); err != nil {
		return err
	}
	if found.PeakBytes, err = peakBytes(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(found)
}

func parameters(name string, sizeLog2 int) (bootstrapping.Parameters, error) {
	set, isKnown := sets[name]
	if !isKnown {
		return bootstrapping.Parameters{}, fmt.Errorf("there is no set '%s'", name)
	}
	if weight, isSparse := set.scheme.Xs.(ring.Ternary); isSparse && weight.H > 1<<(sizeLog2-1) {
		set.scheme.Xs = ring.Ternary{H: 1 << (sizeLog2 - 1)}
	}
	set.scheme.LogN, set.bootstrap.LogN = sizeLog2, &sizeLog2
	residual, err := ckks.NewParametersFromLiteral(set.scheme)
	if err != nil {
		return bootstrapping.Parameters{}, err
	}
	return bootstrapping.NewParametersFromLiteral(residual, set.bootstrap)
}

// prepare makes matrices and keys. Its peak memory is little more than both need together.
func prepare(params bootstrapping.Parameters) (*bootstrapping.Evaluator, *rlwe.SecretKey, error) {
	// The matrices come first, because their numbers of many digits take more memory than the
	// matrices. The evaluator checks which keys exist, but reads no key before it bootstraps.
	elements := params.GaloisElements(params.BootstrappingParameters)
	names := make([]*rlwe.GaloisKey, len(elements))
	for place, element := range elements {
		names[place] = &rlwe.GaloisKey{GaloisElement: element}
	}
	keys := &bootstrapping.EvaluationKeys{
		EvkDenseToSparse: new(rlwe.EvaluationKey), EvkSparseToDense: new(rlwe.EvaluationKey),
		MemEvaluationKeySet: rlwe.NewMemEvaluationKeySet(new(rlwe.RelinearizationKey), names...),
	}
	evaluator, err := bootstrapping.NewEvaluator(params, keys)
	if err != nil {
		return nil, nil, err
	}
	debug.SetGCPercent(garbagePercent)
	debug.FreeOSMemory()
	secret := rlwe.NewKeyGenerator(params.ResidualParameters).GenSecretKeyNew()
	made, _, err := params.GenEvaluationKeys(secret)
	if err != nil {
		return nil, nil, err
	}
	*keys = *made
	debug.FreeOSMemory()
	return evaluator, secret, nil
}

func (found *measured) measure(evaluator *bootstrapping.Evaluator, secret *rlwe.SecretKey, rounds int) error {
	params := evaluator.ResidualParameters
	plain := numbers(found.Slots)
	encoded := ckks.NewPlaintext(params, 0)
	encoder := ckks.NewEncoder(params)
	if err := encoder.Encode(plain, encoded); err != nil {
		return err
	}
	encrypted, err := rlwe.NewEncryptor(params, secret).EncryptNew(encoded)
	if err != nil {
		return err
	}
	var result *rlwe.Ciphertext
	round := func() (float64, error) {
		results, errs := make([]*rlwe.Ciphertext, found.Threads), make([]error, found.Threads)
		inputs := make([]*rlwe.Ciphertext, found.Threads)
		for thread := range inputs {
			// A bootstrap overwrites its input.
			inputs[thread] = encrypted.CopyNew()
		}
		start := time.Now()
		var all sync.WaitGroup
		for thread := range inputs {
			all.Add(1)
			go func() {
				defer all.Done()
				results[thread], errs[thread] = evaluator.Bootstrap(inputs[thread])
			}()
		}
		all.Wait()
		seconds := time.Since(start).Seconds()
		result = results[0]
		for _, err := range errs {
			if err != nil {
				return 0, err
			}
		}
		return seconds, nil
	}
	if found.WarmUpSeconds, err = round(); err != nil {
		return err
	}
	garbage := garbageSeconds()
	for range rounds {
		seconds, err := round()
		if err != nil {
			return err
		}
		found.Seconds = append(found.Seconds, seconds)
	}
	found.GarbageSeconds = garbageSeconds() - garbage
	found.Level = result.Level()
	got := make([]complex128, found.Slots)
	if err := encoder.Decode(rlwe.NewDecryptor(params, secret).DecryptNew(result), got); err != nil {
		return err
	}
	found.MeanBits, found.WorstBits = bits(got, plain)
	return nil
}

// bits counts the bits after the point of the mean and of the greatest error.
func bits(got, expected []complex128) (mean, worst float64) {
	var sum, greatest float64
	for place := range got {
		off := cmplx.Abs(got[place] - expected[place])
		sum += off
		greatest = max(greatest, off)
	}
	return -math.Log2(sum / float64(len(got))), -math.Log2(greatest)
}

// numbers returns pseudorandom numbers in the unit disc, the same as in our own benchmark.
func numbers(count int) []complex128 {
	list := make([]complex128, count)
	for at := range list {
		_, radius := math.Modf(float64(at) * 0.7548)
		list[at] = cmplx.Rect(radius, float64(at*at)*0.618034*2*math.Pi)
	}
	return list
}

// garbageSeconds returns the processor time of the garbage collector on all threads.
func garbageSeconds() float64 {
	sample := []metrics.Sample{{Name: "/cpu/classes/gc/total:cpu-seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64()
}
