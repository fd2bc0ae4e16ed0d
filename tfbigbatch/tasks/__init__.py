"""Tasks by name: model, data, loss, metrics and target."""

from tfbigbatch.tasks.base import Task
from tfbigbatch.tasks.data_functions import from_image_folder, from_tf_data
from tfbigbatch.tasks.ready_made import define
from tfbigbatch.tasks.registry import get as get
from tfbigbatch.tasks.registry import model_defaults as model_defaults
from tfbigbatch.tasks.registry import names as names
from tfbigbatch.tasks.registry import register
from tfbigbatch.tasks.registry import registered as registered

# For experiment files; the other names are for the package itself.
__all__ = ["Task", "define", "from_image_folder", "from_tf_data", "register"]
