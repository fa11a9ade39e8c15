package headrace;

/** A class for the test of the compiler. */
public class EmptyClass {
}
