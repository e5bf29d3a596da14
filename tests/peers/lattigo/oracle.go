package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"

	"github.com/tuneinsight/lattigo/v6/core/rlwe"
	"github.com/tuneinsight/lattigo/v6/ring"
	"github.com/tuneinsight/lattigo/v6/schemes/ckks"
)

// precisionBits is far more than the precision of a double, so encoding and decoding are exact
// except for the last rounding.
const precisionBits = 128

// The chain and the special prime of all requests. A scale of up to 60 bits fits twice.
var (
	chainBits   = []int{60, 60, 60}
	specialBits = []int{61}
)

// request is an "encode" with numbers, a "decode" with coefficients, or a "compute" with two lists
// of numbers and steps of rotations.
type request struct {
	Do           string       `json:"do"`
	SizeLog2     int          `json:"size_log2"`
	SlotsLog2    int          `json:"slots_log2"`
	ScaleLog2    int          `json:"scale_log2"`
	Numbers      [][2]float64 `json:"numbers"`
	Others       [][2]float64 `json:"others"`
	Steps        []int        `json:"steps"`
	Coefficients []string     `json:"coefficients"`
}

// response is the line that answers a request.
type response struct {
	// Result of "encode": integers in decimal, from X^0 to X^(N-1).
	Coefficients []string `json:"coefficients,omitempty"`
	// Result of "decode".
	Numbers [][2]float64 `json:"numbers,omitempty"`
	// Results of "compute", decrypted.
	Sum        [][2]float64   `json:"sum,omitempty"`
	Product    [][2]float64   `json:"product,omitempty"`
	Conjugates [][2]float64   `json:"conjugates,omitempty"`
	Rotations  [][][2]float64 `json:"rotations,omitempty"`
}

// answer reads and answers requests to the end of the input.
func answer(in io.Reader, out io.Writer) error {
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var asked request
		if err := decoder.Decode(&asked); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		said, err := asked.answer()
		if err != nil {
			return fmt.Errorf("%s: %w", asked.Do, err)
		}
		if err := encoder.Encode(said); err != nil {
			return err
		}
	}
}

func (asked request) answer() (response, error) {
	params, err := ckks.NewParametersFromLiteral(ckks.ParametersLiteral{
		LogN: asked.SizeLog2, LogQ: chainBits, LogP: specialBits, LogDefaultScale: asked.ScaleLog2,
	})
	if err != nil {
		return response{}, err
	}
	switch asked.Do {
	case "encode":
		return asked.encode(params)
	case "decode":
		return asked.decode(params)
	case "compute":
		return asked.compute(params)
	default:
		return response{}, errors.New("the operation of the request is unknown")
	}
}

func (asked request) encode(params ckks.Parameters) (response, error) {
	plain := asked.plaintext(params)
	if err := ckks.NewEncoder(params, precisionBits).Encode(asComplex(asked.Numbers), plain); err != nil {
		return response{}, err
	}
	params.RingQ().INTT(plain.Value, plain.Value)
	coefficients := make([]*big.Int, params.N())
	for place := range coefficients {
		coefficients[place] = new(big.Int)
	}
	params.RingQ().PolyToBigintCentered(plain.Value, 1, coefficients)
	said := response{Coefficients: make([]string, params.N())}
	for place, coefficient := range coefficients {
		said.Coefficients[place] = coefficient.String()
	}
	return said, nil
}

func (asked request) decode(params ckks.Parameters) (response, error) {
	if len(asked.Coefficients) != params.N() {
		return response{}, fmt.Errorf("%d coefficients, not %d", len(asked.Coefficients), params.N())
	}
	coefficients := make([]*big.Int, params.N())
	for place, digits := range asked.Coefficients {
		coefficient, isNumber := new(big.Int).SetString(digits, 10)
		if !isNumber {
			return response{}, fmt.Errorf("'%s' is no whole number", digits)
		}
		coefficients[place] = coefficient
	}
	plain := asked.plaintext(params)
	params.RingQ().SetCoefficientsBigint(coefficients, plain.Value)
	params.RingQ().NTT(plain.Value, plain.Value)
	numbers, err := asked.numbers(params, plain)
	return response{Numbers: numbers}, err
}

// compute encrypts both lists, computes with Lattigo's evaluator, and decrypts the results.
func (asked request) compute(params ckks.Parameters) (response, error) {
	generator := rlwe.NewKeyGenerator(params)
	secret := generator.GenSecretKeyNew()
	elements := []uint64{params.GaloisElementForComplexConjugation()}
	for _, steps := range asked.Steps {
		elements = append(elements, params.GaloisElement(steps))
	}
	keys := rlwe.NewMemEvaluationKeySet(
		generator.GenRelinearizationKeyNew(secret), generator.GenGaloisKeysNew(elements, secret)...)
	encoder, encryptor := ckks.NewEncoder(params), rlwe.NewEncryptor(params, secret)
	encrypt := func(numbers [][2]float64) (*rlwe.Ciphertext, error) {
		plain := asked.plaintext(params)
		if err := encoder.Encode(asComplex(numbers), plain); err != nil {
			return nil, err
		}
		return encryptor.EncryptNew(plain)
	}
	left, err := encrypt(asked.Numbers)
	if err != nil {
		return response{}, err
	}
	right, err := encrypt(asked.Others)
	if err != nil {
		return response{}, err
	}
	evaluator, decryptor := ckks.NewEvaluator(params, keys), rlwe.NewDecryptor(params, secret)
	decrypt := func(result *rlwe.Ciphertext, err error) ([][2]float64, error) {
		if err != nil {
			return nil, err
		}
		return asked.numbers(params, decryptor.DecryptNew(result))
	}
	var said response
	if said.Sum, err = decrypt(evaluator.AddNew(left, right)); err != nil {
		return response{}, err
	}
	if said.Product, err = decrypt(evaluator.MulRelinNew(left, right)); err != nil {
		return response{}, err
	}
	if said.Conjugates, err = decrypt(evaluator.ConjugateNew(left)); err != nil {
		return response{}, err
	}
	for _, steps := range asked.Steps {
		rotated, err := decrypt(evaluator.RotateNew(left, steps))
		if err != nil {
			return response{}, err
		}
		said.Rotations = append(said.Rotations, rotated)
	}
	return said, nil
}

func (asked request) plaintext(params ckks.Parameters) *rlwe.Plaintext {
	plain := ckks.NewPlaintext(params, params.MaxLevel())
	plain.LogDimensions = ring.Dimensions{Rows: 0, Cols: asked.SlotsLog2}
	return plain
}

func (asked request) numbers(params ckks.Parameters, plain *rlwe.Plaintext) ([][2]float64, error) {
	numbers := make([]complex128, 1<<asked.SlotsLog2)
	if err := ckks.NewEncoder(params, precisionBits).Decode(plain, numbers); err != nil {
		return nil, err
	}
	pairs := make([][2]float64, len(numbers))
	for place, number := range numbers {
		pairs[place] = [2]float64{real(number), imag(number)}
	}
	return pairs, nil
}

func asComplex(pairs [][2]float64) []complex128 {
	numbers := make([]complex128, len(pairs))
	for place, pair := range pairs {
		numbers[place] = complex(pair[0], pair[1])
	}
	return numbers
}
