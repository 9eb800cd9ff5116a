"""Start TensorFlow as a step does, before the tests import it."""

from batchscope.host import tensorflow_start

tensorflow_start.start()
