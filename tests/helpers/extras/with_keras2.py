"""The extra `keras2`: Keras 2 trains by LAMB."""

import numpy as np
import tf_keras

from tfbigbatch import keras2

model = tf_keras.Sequential([tf_keras.layers.Input((4,)), tf_keras.layers.Dense(2)])
model.compile(keras2.LAMB(0.1), "mse")
model.fit(np.ones((8, 4), np.float32), np.ones((8, 2), np.float32), verbose=0)
